-- shard.lua: the shard that a script works on: its tag, its time, its counters, and pending writes.
--
-- A script that is aborted half way is not rolled back. So every script reads, decides in memory, and then writes:
-- first additions, then removals. An aborted script leaves a request in two places, never in none.

-- Functions that are called for every request: as locals they take a third less time.
local call, pack, parse, unpack = redis.call, struct.pack, struct.unpack, unpack
local byte, format, sub = string.byte, string.format, string.sub

local tag = sub(KEYS[1], 1, -3)  -- KEYS[1] is T:m
local RANK = 4398046511104  -- 2^42: the score of a waiting request is its band times this, plus its ordinal
-- The score of a scheduled lane is its band times 2^49, plus the step at which it is due: 2^18 per second, since 2020.
local SCHEDULE_BAND, STEPS, FIRST_STEP_AT = 562949953421312, 262144, 1577836800
local CLOCK_SLACK_S = 1.0  -- if the clock steps back by less, the shard's time stops until it has caught up

local meta = {}
do
  local fields = call('HMGET', KEYS[1], 'latest', 'offset', 'token', 'moment', 'version', 'rested',
    'rested_version', 'ordinal', 'frozen', 'swept', 'sent_by')
  meta.latest, meta.offset = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0
  meta.token, meta.moment = tonumber(fields[3]) or 0, tonumber(fields[4]) or 0
  meta.version = tonumber(fields[5]) or 1
  -- When the data may have been rolled back, and the version by which hosts notice.
  meta.rested, meta.rested_version = tonumber(fields[6]) or -math.huge, tonumber(fields[7]) or 0
  meta.ordinal = tonumber(fields[8]) or 0  -- of the request that was accepted last
  meta.frozen = tonumber(fields[9]) or -math.huge  -- until when a repair has frozen the shard
  meta.swept = tonumber(fields[10]) or -math.huge  -- when to look for idle hosts again
  meta.sent_by = tonumber(fields[11]) or 0  -- until when requests may leave that have taken their turn
end

-- The time of a shard never goes back: if the server's clock is set back, it continues from where it was. Otherwise
-- every host would have to be read, or some would wait for as long as the clock was off.
local now = read_clock() + meta.offset
if now < meta.latest - CLOCK_SLACK_S then
  meta.offset = meta.offset + meta.latest - now
  now = meta.latest
end
now = math.max(now, meta.latest)
local step = math.floor((now - FIRST_STEP_AT) * STEPS)  -- the current one

-- Return a unique moment, in steps, for a lane that is served or was empty: later than all earlier moments.
local function next_moment()
  local moment = meta.moment
  meta.moment = moment > step and moment + 1 or step + 1
  return meta.moment
end

-- Convert the shard's time to the server's clock, which callers use.
local function server_time(instant)
  return instant - meta.offset
end

-- Format a double exactly: Lua prints 14 digits, and a number in a reply is truncated.
local function format_double(number)
  return format('%.17g', number)
end

-- Format an integer, in a third of the time that the server needs to convert a number.
local function format_int(score)
  return format('%d', score)
end

-- Call a command with any number of arguments: Lua's stack holds about 8,000.
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

local schedule_adds, zset_adds, zset_removals = {}, {}, {}  -- key of a sorted set -> arguments of ZADD, and of ZREM
local list_pushes, list_pops = {}, {}  -- key of a list -> values to append; number of values to pop
local hash_writes = {}  -- key of a hash -> arguments of HSET
local counter_changes = {}  -- crawl -> counter -> change

local function count(crawl, counter, by)
  local changes = counter_changes[crawl]
  if not changes then
    changes = {}
    counter_changes[crawl] = changes
  end
  changes[counter] = (changes[counter] or 0) + by
end

-- Count the requests that wait for their turn or for a retry, by pool. Almost all are in the pool http. Its number
-- follows from the others, so it is not counted and costs nothing.
local function count_pool(crawl, pool, by)
  if pool ~= 'http' then count(crawl, 'pool.' .. pool, by) end
end

-- Change all counters of a crawl with one command: a part of the changes would be worse than none.
local function save_counts()
  for crawl, changes in pairs(counter_changes) do
    local counters, values = {}, {}
    for counter in pairs(changes) do counters[#counters + 1] = counter end
    for first = 1, #counters, 2000 do  -- one slice, unless the links of one call are in thousands of pools
      local last = math.min(first + 1999, #counters)
      local before = call('HMGET', tag .. ':n:' .. crawl, unpack(counters, first, last))
      for i = first, last do
        local counter, known = counters[i], tonumber(before[i - first + 1] or 0)
        if not known then error('the counter ' .. counter .. ' is not a number') end
        values[2 * i - 1], values[2 * i] = counter, known + changes[counter]
      end
    end
    call_with('HSET', tag .. ':n:' .. crawl, values)
  end
  counter_changes = {}
end

-- Write schedules first, then the requests. A lane that is scheduled and empty is found and removed; one that has
-- requests and is not scheduled would never be served. For the same reason leased requests leave their list before the
-- host is saved without that list: new links join any list that exists.
local function save_schedules()
  for key, number in pairs(list_pops) do
    if number == 1 then call('LPOP', key) else call('LPOP', key, number) end
  end
  for key, arguments in pairs(schedule_adds) do call_with('ZADD', key, arguments) end
  list_pops, schedule_adds = {}, {}
end

local function save_additions()
  for key, arguments in pairs(zset_adds) do call_with('ZADD', key, arguments) end
  for key, arguments in pairs(list_pushes) do call_with('RPUSH', key, arguments) end
  for key, arguments in pairs(hash_writes) do call_with('HSET', key, arguments) end
  zset_adds, list_pushes, hash_writes = {}, {}, {}
end

local function save_removals()
  save_counts()
  call('HSET', KEYS[1], 'latest', now, 'offset', meta.offset == 0 and '0' or meta.offset,
    'token', format_int(meta.token), 'moment', format_int(meta.moment), 'ordinal', format_int(meta.ordinal),
    'sent_by', meta.sent_by == 0 and '0' or meta.sent_by)
  for key, arguments in pairs(zset_removals) do call_with('ZREM', key, arguments) end
  zset_removals = {}
end
