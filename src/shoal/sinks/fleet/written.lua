-- Store the position of an output in this shard, and drop the entries that every output of the crawl has.
-- ARGV: number of the crawl, output, position, an entry that is about to be written ('': none), all outputs of the
-- crawl. Positions never decrease. Returns the last entry of the stream; 0-0 if the stream is empty, or if the entry
-- that is about to be written is not there any more.
-- Runs on a server that is out of memory, because it frees memory.

local tag = string.sub(KEYS[1], 1, -3)
-- A deleted crawl has no keys, and must not get new ones.
if redis.call('HEXISTS', tag .. CRAWL_OPTIONS_KEY, ARGV[1]) == 0 then
  return '0-0'
end
local items = tag .. ITEMS_KEY .. ARGV[1]
local marks = tag .. WRITTEN_KEY .. ARGV[1]

local function id_parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function before(a, b)
  local a_ms, a_seq = id_parts(a)
  local b_ms, b_seq = id_parts(b)
  return a_ms < b_ms or (a_ms == b_ms and a_seq < b_seq)
end

-- Written even if it is unchanged: WAIT and WAITAOF cover only what their own connection has written.
local known = redis.call('HGET', marks, ARGV[2])
redis.call('HSET', marks, ARGV[2], known and before(ARGV[3], known) and known or ARGV[3])

local lowest = nil
for n = 5, #ARGV do
  local position = redis.call('HGET', marks, ARGV[n])
  if not position then
    lowest = '0-0'  -- an output that has not started needs all entries
  elseif not lowest or before(position, lowest) then
    lowest = position
  end
end
local ms, seq = string.match(lowest, '^(%d+)-(%d+)$')
redis.call('XTRIM', items, 'MINID', string.format('%s-%.0f', ms, tonumber(seq) + 1))

if ARGV[4] ~= '' and #redis.call('XRANGE', items, ARGV[4], ARGV[4]) == 0 then
  return '0-0'
end
local last = redis.call('XREVRANGE', items, '+', '-', 'COUNT', 1)[1]
return last and last[1] or '0-0'
