-- hosts.lua: the governor of each host, and where that puts its lanes.
--
-- One HMGET reads all hosts of a call and one HSET writes them back. The arithmetic is that of
-- `model/pace.py` and `frontier/governor.py`, step by step, in the same units.

local HOST, LANE = '>ddddddHHHIIHBB', '>IBBdBc0'
local HOST_AND_LANE = '>ddddddHHHIIHBBIBBdBc0'
local VERSION_ON, VERSION_AT = '>IHBBIBBdBc0', 59  -- from the version on, with one lane
local SLOW_ON, SLOW_AT = '>dHHHIIHB', 41  -- from the slow factor on, without the number of lanes
local INFLIGHT_AT, FLAGS_AT = 53, 65
local PAUSED, HAS_OVERRIDES, HAS_ANSWERS = 1, 2, 4
local SUSPECT, SPILLED, ELIGIBLE, COOLING = 1, 2, 4, 8
local EMPTY = 255
local MOST_CLEAR = 65535
local ONE_LANE = 81  -- bytes of a host with one lane, at least

local hosts = {}  -- name -> host, as far as this call has come
local peeked = {}  -- name -> state as it was read, or false if there is none
local touched = {}  -- those that have to be written back, in the order in which they changed
local patched = {}  -- name and state, by turns: to be written back, and never unpacked

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
  local ready, rest_until = host.tat - (host.burst - 1) * host.interval, host.rest_until
  host.ready = ready < rest_until and rest_until or ready  -- a call of math.max takes four times as long
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
  for i = 1, #host.lanes do
    local lane = host.lanes[i]
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

-- Tables are made in one piece: one that grows field by field is moved five times.
local function read_lane(host, crawl, flags, band, stamp, pool)
  local lane = {
    host = host, crawl = crawl, band = band, stamp = stamp, pool = pool, suspect = false, spilled = false,
    place = false, changed = false, queue = false,
  }
  if flags ~= COOLING and flags ~= ELIGIBLE then  -- as most are
    lane.suspect, lane.spilled = flag(flags, SUSPECT), flag(flags, SPILLED)
    flags = flags - flags % ELIGIBLE
  end
  if flags > 0 then lane.place = flags end
  if terms_of(crawl) then
    host.lanes[#host.lanes + 1] = lane
  else
    host.strays = host.strays or {}
    host.strays[#host.strays + 1] = lane
  end
end

local function unpack_host(name, packed)
  local tat, last, rest_until, token, interval, slow, burst, concurrency, inflight, failures, version, clear,
    flags, number, position = meta.rested + 0.5, meta.rested, 0, 0, 0.5, 1, 1, 4, 0, 0, meta.version, 0, 0, 0
  if packed then
    tat, last, rest_until, token, interval, slow, burst, concurrency, inflight, failures, version, clear, flags,
      number, position = struct.unpack(HOST, packed)
  end
  local host = {
    name = name, tat = tat, last = last, rest_until = rest_until, token = token, interval = interval,
    slow = slow, burst = burst, concurrency = concurrency, inflight = inflight, failures = failures,
    version = version, clear = clear, ready = 0, shown = 0, lanes = {}, touched = false, paused = false,
    has_overrides = false, has_answers = false, answers = false, new = not packed,
    strays = false,  -- lanes of crawls that were dropped
  }
  hosts[name] = host
  if flags > 0 then
    host.paused, host.has_overrides = flag(flags, PAUSED), flag(flags, HAS_OVERRIDES)
    host.has_answers = flag(flags, HAS_ANSWERS)
  end
  for _ = 1, number do
    local crawl, lane_flags, band, stamp, pool
    crawl, lane_flags, band, stamp, pool, position = struct.unpack(LANE, packed, position)
    read_lane(host, crawl, lane_flags, band, stamp, pool)
  end
  aim(host)
  host.shown = host.ready  -- the score of its cooling lanes
  if version < meta.rested_version then
    host.last = math.max(last, meta.rested)
    spend(host)
  end
  if version ~= meta.version then follow(host) end
  return host
end

-- Read hosts that are likely to be wanted, in one call, and leave them packed.
local function peek_hosts(names)
  local missing = {}
  for i = 1, #names do
    local name = names[i]
    if not hosts[name] and peeked[name] == nil then
      peeked[name] = false  -- asked for
      missing[#missing + 1] = name
    end
  end
  for first = 1, #missing, 2000 do
    local last = math.min(first + 1999, #missing)
    local found = redis.call('HMGET', tag .. ':h', unpack(missing, first, last))
    for i = first, last do peeked[missing[i]] = found[i - first + 1] end
  end
end

local function host_of(name)
  if hosts[name] then return hosts[name] end
  local packed = peeked[name]
  if packed == nil then packed = redis.call('HGET', tag .. ':h', name) end
  return unpack_host(name, packed)
end

-- Give band and stamp of a lane without unpacking its host, if the host has this lane only, as most have, and
-- nothing to learn.
local function peek_lane(name, crawl, pool)
  local packed = not hosts[name] and peeked[name]
  if not packed or #packed < ONE_LANE then return nil end
  local version, _, _, number, its_crawl, flags, band, stamp, its_pool =
    struct.unpack(VERSION_ON, packed, VERSION_AT)
  if number ~= 1 or version ~= meta.version then return nil end
  if its_crawl ~= crawl or its_pool ~= pool or flag(flags, SUSPECT) then return nil end
  return band, stamp
end

-- Note that a request has ended and its host answered as it should, without unpacking the host; say whether that
-- could be done. It can where no lane goes elsewhere by it and nothing is to be learned, as mostly.
local function patch_answered(name, landed)
  local packed = not hosts[name] and peeked[name]
  if not packed then return false end
  local slow, _, concurrency, inflight, failures, version, clear, flags = struct.unpack(SLOW_ON, packed, SLOW_AT)
  if slow ~= 1 or flags ~= 0 or version ~= meta.version or inflight >= concurrency then return false end
  if not landed and inflight > 0 then inflight = inflight - 1 end
  if clear < MOST_CLEAR then clear = clear + 1 end
  packed = string.sub(packed, 1, INFLIGHT_AT - 1) .. struct.pack('>HIIH', inflight, failures, version, clear)
    .. string.sub(packed, FLAGS_AT)
  peeked[name] = packed
  patched[#patched + 1], patched[#patched + 2] = name, packed
  return true
end

-- Let one request go.
local function take(host, token)
  host.inflight = host.inflight + 1
  host.tat = (host.tat < now and now or host.tat) + host.interval
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

local roster_names = {}  -- the same few names are wanted for every lane

local function roster(lane, set)
  local crawl = roster_names[lane.crawl]
  if not crawl then
    crawl = {}
    roster_names[lane.crawl] = crawl
  end
  local pool = crawl[lane.pool]
  if not pool then
    pool = {}
    for _, one in ipairs({'el', 'co', 'xel', 'xco'}) do
      pool[one] = tag .. ':' .. one .. ':' .. lane.crawl .. ':' .. lane.pool
    end
    crawl[lane.pool] = pool
  end
  if lane.suspect then return set == 'el' and pool.xel or pool.xco end
  return pool[set]
end

-- Put the lanes of a host where they belong. One that was put to cool may have been moved to `el` since, when
-- its time had come, without a word in its host's state: that would be another write for each turn.
local function place(host)
  local wanted = is_open(host) and (host.ready <= now and ELIGIBLE or COOLING)
  for i = 1, #host.lanes do
    local lane = host.lanes[i]
    local from, to = lane.place, lane.band ~= EMPTY and wanted
    local moved = from == COOLING and host.shown <= now
    if to == ELIGIBLE and (from ~= ELIGIBLE or lane.changed) then
      push(placed, roster(lane, 'el'), printed(lane.band * RANK + lane.stamp), host.name)
    elseif to == COOLING and (from ~= COOLING or host.shown ~= host.ready) then
      push(placed, roster(lane, 'co'), printed(host.ready * TICKS), host.name)
    end
    if to ~= ELIGIBLE and (from == ELIGIBLE or moved) then push(removed, roster(lane, 'el'), host.name) end
    if to ~= COOLING and from == COOLING then push(removed, roster(lane, 'co'), host.name) end
    lane.place, lane.changed = to, false
  end
  host.shown = host.ready
end

local function lane_flags(lane)
  local flags = lane.place or 0
  if lane.suspect then flags = flags + SUSPECT end
  if lane.spilled then flags = flags + SPILLED end
  return flags
end

local function pack_host(host)
  local lanes, flags = host.lanes, 0
  if host.paused then flags = flags + PAUSED end
  if host.has_overrides then flags = flags + HAS_OVERRIDES end
  if host.has_answers then flags = flags + HAS_ANSWERS end
  local first = lanes[1]
  if #lanes == 1 then  -- as most have: one string, and no pieces of it
    return struct.pack(HOST_AND_LANE, host.tat, host.last, host.rest_until, host.token, host.interval,
      host.slow, host.burst, host.concurrency, host.inflight, host.failures, host.version, host.clear, flags, 1,
      first.crawl, lane_flags(first), first.band, first.stamp, #first.pool, first.pool)
  end
  local parts = {struct.pack(HOST, host.tat, host.last, host.rest_until, host.token, host.interval,
    host.slow, host.burst, host.concurrency, host.inflight, host.failures, host.version, host.clear, flags, #lanes)}
  for i, lane in ipairs(lanes) do
    parts[i + 1] = struct.pack(LANE, lane.crawl, lane_flags(lane), lane.band, lane.stamp, #lane.pool,
      lane.pool)
  end
  return table.concat(parts)
end

-- Write back what has changed, and everything that was gathered in sets and counters with it.
local function save()
  local states, answers = patched, {}
  for i = 1, #touched do
    local host = touched[i]
    place(host)
    states[#states + 1], states[#states + 2] = host.name, pack_host(host)
    if host.answers then answers[#answers + 1], answers[#answers + 2] = host.name, host.answers end
    host.touched = false
  end
  touched, patched = {}, {}
  save_additions()
  call_with('HSET', tag .. ':h', states)
  call_with('HSET', tag .. ':hw', answers)
  save_removals()
end
