-- Move entries that cannot be read to the quarantine of their crawl, each in one atomic step with its removal.
-- ARGV: number of the crawl (0: none), time, entries to keep, bytes of each to keep; then for each its key, the type of
-- the key as it should be ('key': the key itself is wrong), the member (field, value or stream id), and the reason.
-- Returns for each its length, or -1 if it was not there any more.

local tag = string.sub(KEYS[1], 1, -3)
local quarantine = tag .. QUARANTINE_KEY .. ARGV[1]
local kind = redis.call('TYPE', quarantine).ok
if kind ~= 'none' and kind ~= 'stream' then redis.call('UNLINK', quarantine) end

-- By type: return the bytes of a member, or false if it is not there; remove it.
local read, remove = {}, {}
function read.hash(key, member) return redis.call('HGET', key, member) end
function remove.hash(key, member) redis.call('HDEL', key, member) end
function read.list(key, member) return redis.call('LPOS', key, member) and member end
function remove.list(key, member) redis.call('LREM', key, 1, member) end
function read.zset(key, member) return redis.call('ZSCORE', key, member) and member end
function remove.zset(key, member) redis.call('ZREM', key, member) end
function read.set(key, member) return redis.call('SISMEMBER', key, member) == 1 and member end
function remove.set(key, member) redis.call('SREM', key, member) end
function read.stream(key, id)
  local found = redis.call('XRANGE', key, id, id)[1]
  return found and table.concat(found[2], '\n')
end
function remove.stream(key, id)
  redis.pcall('XACK', key, PARSE_GROUP, id)
  redis.call('XDEL', key, id)
end
function read.key(key)
  local held = redis.call('TYPE', key).ok
  if held == 'none' then return false end
  return held == 'string' and redis.call('GET', key) or redis.call('DUMP', key)
end
function remove.key(key) redis.call('UNLINK', key) end
read.string, remove.string = read.key, remove.key

local lengths = {}
for i = 5, #ARGV, 4 do
  local key, type_name, member, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local body = read[type_name](key, member)
  if body then
    redis.call('XADD', quarantine, 'MAXLEN', ARGV[3], '*', 'place', key, 'id', string.sub(member, 1, 256),
      'reason', reason, 'size', #body, 'at', ARGV[2], 'body', string.sub(body, 1, ARGV[4]))
    remove[type_name](key, member)
  end
  lengths[#lengths + 1] = body and #body or -1
end
return lengths
