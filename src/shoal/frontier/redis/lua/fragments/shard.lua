-- shard.lua: the shard that a script works on: its names, its time, its counters, and its sorted sets.
--
-- A script that dies half way is not rolled back. So every script reads, decides in memory, and then writes:
-- first what it adds, then what it removes. What is cut short leaves something twice, never nowhere.

-- What is called for every request; by a name of its own it takes a third less.
local call, pack, parse, unpack = redis.call, struct.pack, struct.unpack, unpack
local byte, format, sub = string.byte, string.format, string.sub

local tag = sub(KEYS[1], 1, -3)  -- KEYS[1] is T:m
local RANK = 4398046511104  -- 2^42: a score is a band times this, plus a number in the order of its queue
-- A place in line is a band times LINE, plus the step at which the lane is due: 2^18 steps to a second, from 2020 on.
local LINE, STEPS, FIRST_STEP_AT = 562949953421312, 262144, 1577836800
local SET_BACK = 1.0  -- seconds; a clock that steps back by less stands still until time has caught up

local meta = {}
do
  local fields = call('HMGET', KEYS[1], 'latest', 'offset', 'token', 'moment', 'version', 'rested',
    'rested_version', 'ordinal', 'frozen', 'swept')
  meta.latest, meta.offset = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0
  meta.token, meta.moment = tonumber(fields[3]) or 0, tonumber(fields[4]) or 0
  meta.version = tonumber(fields[5]) or 1
  -- When the data was rolled back, for all we know, and the version with which hosts learn that.
  meta.rested, meta.rested_version = tonumber(fields[6]) or -math.huge, tonumber(fields[7]) or 0
  meta.ordinal = tonumber(fields[8]) or 0  -- of the request that was accepted last
  meta.frozen = tonumber(fields[9]) or -math.huge  -- until when somebody puts the shard right
  meta.swept = tonumber(fields[10]) or -math.huge  -- until when nobody looks for hosts to forget
end

-- The shard's own time never goes back: where the server's clock is set back, it goes on from where it was.
-- Otherwise every host would have to be looked at, or some would wait for as long as the clock was off.
local now = read_clock() + meta.offset
if now < meta.latest - SET_BACK then
  meta.offset = meta.offset + meta.latest - now
  now = meta.latest
end
now = math.max(now, meta.latest)
local step = math.floor((now - FIRST_STEP_AT) * STEPS)  -- the one that has begun

-- Give a moment of its own, in steps, to each lane that is served or ceases to be empty: later than whatever was due
-- before.
local function next_moment()
  local moment = meta.moment
  meta.moment = moment > step and moment + 1 or step + 1
  return meta.moment
end

-- What an instant of the shard is by the server's clock: what callers are told.
local function told(instant)
  return instant - meta.offset
end

-- Lua prints 14 digits of a number, and truncates it in a reply.
local function exact(number)
  return format('%.17g', number)
end

-- Print a whole number, in a third of the time that the server takes for any number that it is given.
local function printed(score)
  return format('%d', score)
end

-- Call a command with any number of arguments: Lua's stack ends at about 8,000.
local function call_with(command, key, arguments)
  local number = #arguments
  if number > 0 and number <= 2000 then return call(command, key, unpack(arguments)) end
  for first = 1, number, 2000 do
    call(command, key, unpack(arguments, first, math.min(first + 1999, number)))
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
local pushed, popped = {}, {}  -- key of a list -> what joins at its end; how many have left its beginning
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

-- Count requests that wait for their turn or for a retry, by pool. Almost all are of the pool http, whose number
-- follows from the others: it is not counted, so that it costs nothing.
local function count_pool(crawl, pool, by)
  if pool ~= 'http' then count(crawl, 'pool.' .. pool, by) end
end

-- All counters of a crawl change in one command: half of them would be worse than none.
local function save_counts()
  for crawl, changes in pairs(counted) do
    local counters, values = {}, {}
    for counter in pairs(changes) do counters[#counters + 1] = counter end
    local before = call('HMGET', tag .. ':n:' .. crawl, unpack(counters))
    for i = 1, #counters do
      local counter = counters[i]
      values[2 * i - 1], values[2 * i] = counter, (tonumber(before[i]) or 0) + changes[counter]
    end
    call('HSET', tag .. ':n:' .. crawl, unpack(values))
  end
  counted = {}
end

-- Write what was gathered: where a lane stands, then what waits in it. A lane that stands somewhere and is empty is
-- found and taken away; one that waits and stands nowhere would never be served. For the same reason what is leased
-- leaves its list before the host is told that the list may be gone: new links join whatever list there is.
local function save_places()
  for key, number in pairs(popped) do
    if number == 1 then call('LPOP', key) else call('LPOP', key, number) end
  end
  for key, arguments in pairs(placed) do call_with('ZADD', key, arguments) end
  popped, placed = {}, {}
end

local function save_additions()
  for key, arguments in pairs(added) do call_with('ZADD', key, arguments) end
  for key, arguments in pairs(pushed) do call_with('RPUSH', key, arguments) end
  for key, arguments in pairs(written) do call_with('HSET', key, arguments) end
  added, pushed, written = {}, {}, {}
end

local function save_removals()
  save_counts()
  call('HSET', KEYS[1], 'latest', now, 'offset', meta.offset == 0 and '0' or meta.offset, 'token', printed(meta.token),
    'moment', printed(meta.moment), 'ordinal', printed(meta.ordinal))
  for key, arguments in pairs(removed) do call_with('ZREM', key, arguments) end
  removed = {}
end
