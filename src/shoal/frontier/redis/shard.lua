-- shard.lua: the shard that a script works on: its names, its time, its counters, and its sorted sets.
--
-- A script that dies half way is not rolled back. So every script reads, decides in memory, and then writes:
-- first what it adds, then what it removes. What is cut short leaves something twice, never nowhere.

local tag = string.sub(KEYS[1], 1, -3)  -- KEYS[1] is T:m
local RANK = 4398046511104  -- 2^42: a score is a band times this, plus a number in the order of its queue
local TICKS = 4194304  -- 2^22 to a second: an instant of these decades is a whole number of them, to its last bit
local SET_BACK = 1.0  -- seconds; a clock that steps back by less stands still until time has caught up

local meta = {}
do
  local fields = redis.call('HMGET', KEYS[1], 'latest', 'offset', 'token', 'stamp', 'version', 'rested',
    'rested_version')
  meta.latest, meta.offset = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0
  meta.token, meta.stamp = tonumber(fields[3]) or 0, tonumber(fields[4]) or 0
  meta.version = tonumber(fields[5]) or 1
  -- When the data was rolled back, for all we know, and the version with which hosts learn that.
  meta.rested, meta.rested_version = tonumber(fields[6]) or -math.huge, tonumber(fields[7]) or 0
end

-- The shard's own time never goes back: where the server's clock is set back, it goes on from where it was.
-- Otherwise every host would have to be looked at, or some would wait for as long as the clock was off.
local now = read_clock() + meta.offset
if now < meta.latest - SET_BACK then
  meta.offset = meta.offset + meta.latest - now
  now = meta.latest
end
now = math.max(now, meta.latest)

-- What an instant of the shard is by the server's clock: what callers are told.
local function told(instant)
  return instant - meta.offset
end

-- Lua prints 14 digits of a number, and truncates it in a reply.
local function exact(number)
  return string.format('%.17g', number)
end

-- Print a score: what is whole in a third of the time that the server would take.
local function printed(score)
  return score % 1 == 0 and string.format('%d', score) or score
end

-- Call a command with any number of arguments: Lua's stack ends at about 8,000.
local function call_with(command, key, arguments)
  local number = #arguments
  if number > 0 and number <= 2000 then return redis.call(command, key, unpack(arguments)) end
  for first = 1, number, 2000 do
    redis.call(command, key, unpack(arguments, first, math.min(first + 1999, number)))
  end
end

-- Append one value, or two, to the list under a key.
local function push(lists, key, one, other)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  local size = #list
  list[size + 1] = one
  if other then list[size + 2] = other end
end

local placed, added, removed = {}, {}, {}  -- key of a sorted set -> arguments of ZADD, and of ZREM
local written = {}  -- key of a hash -> arguments of HSET
local counted = {}  -- crawl -> counter -> by how much

local function count(crawl, counter, by)
  local changes = counted[crawl]
  if not changes then
    changes = {}
    counted[crawl] = changes
  end
  changes[counter] = (changes[counter] or 0) + by
end

-- All counters of a crawl change in one command: half of them would be worse than none.
local function save_counts()
  for crawl, changes in pairs(counted) do
    local counters, values = {}, {}
    for counter in pairs(changes) do counters[#counters + 1] = counter end
    local before = redis.call('HMGET', tag .. ':n:' .. crawl, unpack(counters))
    for i = 1, #counters do
      local counter = counters[i]
      values[2 * i - 1], values[2 * i] = counter, (tonumber(before[i]) or 0) + changes[counter]
    end
    redis.call('HSET', tag .. ':n:' .. crawl, unpack(values))
  end
  counted = {}
end

-- Write what was gathered: additions first, and where a lane stands before what waits in it. A lane that stands
-- somewhere and is empty is found and taken away; one that waits and stands nowhere would never be served.
local function save_additions()
  for key, arguments in pairs(placed) do call_with('ZADD', key, arguments) end
  for key, arguments in pairs(added) do call_with('ZADD', key, arguments) end
  for key, arguments in pairs(written) do call_with('HSET', key, arguments) end
  placed, added, written = {}, {}, {}
end

local function save_removals()
  save_counts()
  redis.call('HSET', KEYS[1], 'latest', now, 'offset', meta.offset, 'token', meta.token, 'stamp', meta.stamp)
  for key, arguments in pairs(removed) do call_with('ZREM', key, arguments) end
  removed = {}
end
