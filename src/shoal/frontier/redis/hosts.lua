-- hosts.lua: the governor of each host, and where that puts its lanes.
--
-- One HMGET reads all hosts of a call and one HSET writes them back. The arithmetic is that of
-- `model/pace.py` and `frontier/governor.py`, step by step, in the same units.

local HOST, LANE = '>ddddddHHHIIHBB', '>IBBdBc0'
local PAUSED, HAS_OVERRIDES, HAS_ANSWERS = 1, 2, 4
local SUSPECT, SPILLED, ELIGIBLE, COOLING = 1, 2, 4, 8
local EMPTY = 255
local MOST_CLEAR = 65535

local hosts = {}  -- name -> host, as far as this call has come
local touched = {}  -- those that have to be written back, in the order in which they changed

local function flag(flags, bit)
  return flags % (2 * bit) >= bit
end

local function touch(host)
  if not host.touched then
    host.touched = true
    touched[#touched + 1] = host
  end
end

local function is_open(host)
  return host.inflight < host.concurrency and not host.paused
end

local function aim(host)
  host.ready = math.max(host.rest_until, host.tat - (host.burst - 1) * host.interval)
end

-- A change leaves no credit: as if the whole burst had been spent with the latest request.
local function spend(host)
  host.tat = host.last + host.burst * host.interval
  host.token = 0
end

local function rules_of(host)
  local terms = host.lanes[1] and terms_of(host.lanes[1].crawl)
  return terms and terms.rules or {threshold = 0.02, reach = 9, at_least = 20, window = 100, floor = 0.1, ceiling = 60}
end

local function overrides_of(host)
  local packed = host.has_overrides and redis.call('HGET', tag .. ':ho', host.name)
  if not packed then return -1, -1, -1, 0 end
  return struct.unpack('>dhhd', packed)
end

-- Apply the slowest of all paces that have a say: those of its crawls or its own, Crawl-delay, slow-down.
local function follow(host)
  local interval, burst, concurrency
  for _, lane in ipairs(host.lanes) do
    local terms = terms_of(lane.crawl)
    if terms then
      local its_interval, its_burst, its_concurrency = pace_of(lane.crawl, terms, host.name)
      interval = math.max(interval or 0, its_interval)
      burst = math.min(burst or its_burst, its_burst)
      concurrency = math.min(concurrency or its_concurrency, its_concurrency)
    end
  end
  interval, burst, concurrency = interval or 0.5, burst or 1, concurrency or 4
  local own_interval, own_burst, own_concurrency, crawl_delay = overrides_of(host)
  if own_interval >= 0 then interval = own_interval end
  if own_burst >= 0 then burst = own_burst end
  if own_concurrency >= 0 then concurrency = own_concurrency end
  if crawl_delay > interval then interval, burst = crawl_delay, 1 end
  if host.slow > 1 then
    local rules = rules_of(host)
    interval = math.max(interval, math.min(math.max(interval, rules.floor) * host.slow, rules.ceiling))
    burst = 1
  end
  if interval ~= host.interval or burst ~= host.burst or concurrency ~= host.concurrency then
    host.interval, host.burst, host.concurrency = interval, burst, concurrency
    spend(host)
  end
  host.version = meta.version
  aim(host)
  touch(host)
end

local function unpack_lanes(host, packed, position, number)
  for _ = 1, number do
    local lane, flags = {host = host}
    lane.crawl, flags, lane.band, lane.stamp, lane.pool, position = struct.unpack(LANE, packed, position)
    lane.suspect, lane.spilled = flag(flags, SUSPECT), flag(flags, SPILLED)
    lane.place = flag(flags, ELIGIBLE) and ELIGIBLE or flag(flags, COOLING) and COOLING or nil
    local lanes = terms_of(lane.crawl) and host.lanes or host.strays
    lanes[#lanes + 1] = lane
  end
end

local function unpack_host(name, packed)
  local host = {name = name, lanes = {}, strays = {}}  -- strays: lanes of crawls that were dropped
  hosts[name] = host
  if not packed then
    host.tat, host.last, host.rest_until, host.token = -math.huge, -math.huge, 0, 0
    host.interval, host.slow, host.burst, host.concurrency, host.inflight, host.failures = 0.5, 1, 1, 4, 0, 0
    host.clear, host.version, host.new = 0, meta.version, true
  else
    local flags, number, position
    host.tat, host.last, host.rest_until, host.token, host.interval, host.slow, host.burst, host.concurrency,
      host.inflight, host.failures, host.version, host.clear, flags, number, position =
      struct.unpack(HOST, packed)
    host.paused, host.has_overrides = flag(flags, PAUSED), flag(flags, HAS_OVERRIDES)
    host.has_answers = flag(flags, HAS_ANSWERS)
    unpack_lanes(host, packed, position, number)
  end
  aim(host)
  host.shown = host.ready  -- the score of its cooling lanes
  if host.version ~= meta.version then follow(host) end
  if host.last < meta.rested then
    host.last = meta.rested
    spend(host)
    aim(host)
    touch(host)
  end
  return host
end

local function load_hosts(names)
  local missing = {}
  for _, name in ipairs(names) do
    if hosts[name] == nil then
      hosts[name] = false  -- asked for
      missing[#missing + 1] = name
    end
  end
  for first = 1, #missing, 2000 do
    local last = math.min(first + 1999, #missing)
    local packed = redis.call('HMGET', tag .. ':h', unpack(missing, first, last))
    for i = first, last do unpack_host(missing[i], packed[i - first + 1]) end
  end
end

local function host_of(name)
  return hosts[name] or unpack_host(name, redis.call('HGET', tag .. ':h', name))
end

-- Let one request go.
local function take(host, token)
  host.inflight = host.inflight + 1
  host.tat = math.max(host.tat, now) + host.interval
  host.last, host.token = now, token
  aim(host)
  touch(host)
end

-- Take back the turn of a request that never left, unless a later one was taken or the pace changed.
local function give_back(host, token, interval)
  if token == host.token then
    host.tat = host.tat - interval
    aim(host)
    touch(host)
  end
end

local function rest(host, until_instant)
  host.rest_until = math.max(host.rest_until, until_instant)
  aim(host)
  touch(host)
end

-- Learn from an answer; the pace follows the slow factor.
local function hear(host, blocked)
  local answers = host.answers
  if not host.has_answers then
    if not blocked and host.slow == 1 then
      host.clear = math.min(host.clear + 1, MOST_CLEAR)
      return
    end
    answers = string.rep('0', math.min(host.clear, rules_of(host).window))
  elseif not answers then
    answers = redis.call('HGET', tag .. ':hw', host.name) or ''
  end
  local rules = rules_of(host)
  answers = string.sub(answers .. (blocked and '1' or '0'), -rules.window)
  host.answers, host.has_answers = answers, true
  if #answers < rules.at_least then return end  -- too few to say anything
  local _, blocks = string.gsub(answers, '1', '')
  local slow = 1
  if blocks > 0 then slow = 1 + rules.reach * (1 - math.exp(-(blocks / #answers) / rules.threshold)) end
  slow = tonumber(string.format('%.3f', slow))
  if slow ~= host.slow then
    host.slow = slow
    follow(host)
  end
end

local function roster(lane, set)
  return tag .. (lane.suspect and ':x' or ':') .. set .. ':' .. lane.crawl .. ':' .. lane.pool
end

-- Put the lanes of a host where they belong.
local function place(host)
  local open, due = is_open(host), host.ready <= now
  for _, lane in ipairs(host.lanes) do
    local wanted = nil
    if open and lane.band ~= EMPTY then wanted = due and ELIGIBLE or COOLING end
    if wanted == ELIGIBLE and (lane.place ~= ELIGIBLE or lane.changed) then
      push(added, roster(lane, 'el'), lane.band * RANK + lane.stamp, host.name)
    elseif wanted == COOLING and (lane.place ~= COOLING or host.shown ~= host.ready) then
      push(added, roster(lane, 'co'), host.ready, host.name)
    end
    if lane.place and lane.place ~= wanted then
      push(removed, roster(lane, lane.place == ELIGIBLE and 'el' or 'co'), host.name)
    end
    lane.place, lane.changed = wanted, false
  end
  host.shown = host.ready
end

local function pack_host(host)
  local flags = (host.paused and PAUSED or 0) + (host.has_overrides and HAS_OVERRIDES or 0)
    + (host.has_answers and HAS_ANSWERS or 0)
  local parts = {struct.pack(HOST, host.tat, host.last, host.rest_until, host.token, host.interval, host.slow,
    host.burst, host.concurrency, host.inflight, host.failures, host.version, host.clear, flags, #host.lanes)}
  for _, lane in ipairs(host.lanes) do
    local lane_flags = (lane.suspect and SUSPECT or 0) + (lane.spilled and SPILLED or 0) + (lane.place or 0)
    parts[#parts + 1] = struct.pack(LANE, lane.crawl, lane_flags, lane.band, lane.stamp, #lane.pool, lane.pool)
  end
  return table.concat(parts)
end

-- Write back what has changed, and everything that was gathered in sets and counters with it.
local function save()
  local states, answers = {}, {}
  for _, host in ipairs(touched) do
    place(host)
    states[#states + 1], states[#states + 2] = host.name, pack_host(host)
    if host.answers then answers[#answers + 1], answers[#answers + 2] = host.name, host.answers end
    host.touched = false
  end
  touched = {}
  call_with('HSET', tag .. ':h', states)
  call_with('HSET', tag .. ':hw', answers)
  save_sets()
end
