-- hosts.lua: the governor of each host, and the schedule of its lanes.
--
-- One HMGET reads all hosts of a call and one HSET writes them back. The arithmetic is that of `model/pace.py` and
-- `frontier/governor.py`, step by step, in the same units.
--
-- Hosts and lanes are arrays: the values of `struct.unpack` go into one without a field lookup. First come the fields
-- that only this call uses, then the packed fields in their order.

local NAME, READY, SCHEDULED_READY, DIRTY, LANES, ORPHANS, RESPONSES, NEW = 1, 2, 3, 4, 5, 6, 7, 8
local TAT, LAST, REST_UNTIL, TOKEN, INTERVAL, SLOW, BURST, CONCURRENCY = 9, 10, 11, 12, 13, 14, 15, 16
local INFLIGHT, FAILURES, VERSION, CLEAR, FLAGS, NUMBER, LANES_AT = 17, 18, 19, 20, 21, 22, 23
local HOST = '>ddddddHHHIIHBB'
local PAUSED, HAS_OVERRIDES, HAS_RESPONSES, HAS_HEAD_START = 1, 2, 4, 8
local PENDING, MAX_PENDING = 16, 15  -- FLAGS from this bit on: leases whose request has not taken its turn yet

local OF_HOST, CHANGED, READ, READ_KEY, READ_BAND, UNREAD, TAKEN, BACK, BACK_TAKEN = 1, 2, 3, 4, 5, 6, 7, 8, 9
local CRAWL, LANE_FLAGS, BAND, FRESH, MOMENT, POOL = 10, 11, 12, 13, 14, 15  -- READ to BACK_TAKEN: lease.lua
local LANE = '>IBBHdBc0'
local SUSPECT, SPILLED, SCHEDULED, RETURNED = 1, 2, 4, 8
local EMPTY = 255
local MAX_CLEAR, MAX_NUMBER = 65535, 255

local SLOW_ON, SLOW_AT = '>dHHHIIHB', 41  -- the fields from SLOW to FLAGS
local INFLIGHT_AT, FLAGS_AT = 53, 65

local hosts = {}  -- name -> host, with the changes of this call
local prefetched = {}  -- name -> packed state as read, false: not stored; `hosts` may be newer
local dirty_hosts = {}  -- to be written back, in the order in which they changed
local patched_states = {}  -- name and packed state, alternating: to be written back, never unpacked

local function has_flag(flags, bit)
  return flags % (2 * bit) >= bit
end

local function with_flag(flags, bit, wanted)
  if has_flag(flags, bit) == wanted then return flags end
  return wanted and flags + bit or flags - bit
end

local function mark_dirty(host)
  if not host[DIRTY] then
    host[DIRTY] = true
    dirty_hosts[#dirty_hosts + 1] = host
  end
end

local function is_paused(host)
  return host[FLAGS] % 2 >= PAUSED
end

local function is_open(host)
  return host[INFLIGHT] < host[CONCURRENCY] and not is_paused(host)
end

-- Leases take turns in advance: TAT is when the host is due again after the requests of all pending leases. It minus
-- an interval for each of them is when it is due after the request that was sent last. Not counted without a rate
-- limit: then requests take no turns (rate_ticket.lua).
local function pending_leases(host)
  return math.floor(host[FLAGS] / PENDING)
end

local function set_pending_leases(host, number)
  host[FLAGS] = host[FLAGS] % PENDING + math.min(number, MAX_PENDING) * PENDING
end

-- When the host is due for any taker after the request that was sent last.
local function due_for_others(host)
  return host[TAT] - pending_leases(host) * host[INTERVAL]
end

local SAME_S = 1e-5  -- instants that differ by less are the same: a double holds epoch seconds to 2e-7
local head_starts = {}  -- host -> taker, seconds and due_for_others, as read or changed by this call

-- Return by how many seconds a taker of turns may have its next one before any other taker (rate_ticket.lua).
local function head_start(host, taker)
  if not has_flag(host[FLAGS], HAS_HEAD_START) then return 0 end
  local known = head_starts[host[NAME]]
  if not known then
    local packed = call('GET', tag .. ':ht:' .. host[NAME])
    known = {taker = '', seconds = 0, due = 0}
    if packed then
      local seconds, since, due, position = parse('>ddd', packed)
      if since > meta.rested then known = {taker = sub(packed, position), seconds = seconds, due = due} end
    end
    head_starts[host[NAME]] = known
  end
  -- Another taker of an older version leaves it behind, and the pace may have changed.
  local is_current = math.abs(known.due - due_for_others(host)) < SAME_S
  return is_current and known.taker == taker and known.seconds or 0
end

-- Give a taker a head start over others, for which the host is due at `due`, or remove it.
local function set_head_start(host, taker, seconds, due)
  local key = tag .. ':ht:' .. host[NAME]
  if seconds > 0 then
    call('SET', key, pack('>ddd', seconds, now, due) .. taker, 'PX', math.ceil((due - now) * 1000) + 1000)
  elseif has_flag(host[FLAGS], HAS_HEAD_START) then
    call('DEL', key)
  end
  host[FLAGS] = with_flag(host[FLAGS], HAS_HEAD_START, seconds > 0)
  head_starts[host[NAME]] = {taker = taker, seconds = seconds, due = due}
end

local function update_ready(host)
  local ready, burst, rest_until = host[TAT], host[BURST], host[REST_UNTIL]
  if burst > 1 then ready = ready - (burst - 1) * host[INTERVAL] end
  host[READY] = ready < rest_until and rest_until or ready  -- math.max takes four times as long
end

-- Leave no credit after a change of pace: as if the latest request had spent the whole burst.
local function spend_burst(host)
  host[TAT] = host[LAST] + host[BURST] * host[INTERVAL]
  host[TOKEN] = 0
  set_pending_leases(host, 0)
end

local function slowdown_rules(host)
  local first = host[LANES][1]
  local options = first and options_of(first[CRAWL])
  return options and options.rules
    or {threshold = 0.02, reach = 9, at_least = 20, window = 100, floor = 0.1, ceiling = 60}
end

local function overrides_of(host)
  local packed = has_flag(host[FLAGS], HAS_OVERRIDES) and call('HGET', tag .. ':ho', host[NAME])
  if not packed then return -1, -1, -1, 0 end
  return parse('>dhhd', packed)
end

-- Apply the slowest pace: those of the host's crawls or its override, Crawl-delay, slow-down.
local function apply_pace(host)
  local interval, burst, concurrency
  for _, lane in ipairs(host[LANES]) do
    local crawl = lane[CRAWL]
    local options = options_of(crawl)
    if options then
      local its_interval, its_burst, its_concurrency = pace_of(crawl, options, host[NAME])
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
  local slow = host[SLOW]
  if slow > 1 then
    local rules = slowdown_rules(host)
    interval = math.max(interval, math.min((interval > 0 and interval or rules.floor) * slow, rules.ceiling))
    burst = 1
  end
  if interval ~= host[INTERVAL] or burst ~= host[BURST] or concurrency ~= host[CONCURRENCY] then
    host[INTERVAL], host[BURST], host[CONCURRENCY] = interval, burst, concurrency
    spend_burst(host)
  end
  host[VERSION] = meta.version
  update_ready(host)
  mark_dirty(host)
end

-- Lanes follow to the end of the packed state: their number has one byte, and more crawls may share a host.
local function read_lanes(host, packed)
  local position, own = host[LANES_AT], host[LANES]
  while position <= #packed do
    local lane = {host, false, false, false, 0, false, 0, false, 0, parse(LANE, packed, position)}
    local crawl = lane[CRAWL]
    position = lane[POOL + 1]
    if options_cache[crawl] or options_of(crawl) then
      own[#own + 1] = lane
    else
      host[ORPHANS] = host[ORPHANS] or {}  -- of a crawl that was deleted
      table.insert(host[ORPHANS], lane)
    end
  end
end

local function unpack_host(name, packed)
  local host
  if packed then
    host = {name, 0, 0, false, {}, false, false, false, parse(HOST, packed)}
    read_lanes(host, packed)
  else
    host = {name, 0, 0, false, {}, false, false, true, meta.rested + 0.5, meta.rested, 0, 0, 0.5, 1, 1, 4, 0, 0,
      meta.version, 0, 0, 0}
  end
  hosts[name] = host
  update_ready(host)
  host[SCHEDULED_READY] = host[READY]  -- by which its lanes are scheduled
  local version = host[VERSION]
  if version ~= meta.version then
    if version < meta.rested_version then
      host[LAST] = math.max(host[LAST], meta.rested)
      spend_burst(host)
    end
    apply_pace(host)
  end
  return host
end

-- Read hosts that are likely to be needed with one command, and leave them packed.
local function prefetch_hosts(names, first)
  for from = first or 1, #names, 2000 do
    local last = math.min(from + 1999, #names)
    local found = call('HMGET', tag .. ':h', unpack(names, from, last))
    for i = 1, #found do prefetched[names[from + i - 1]] = found[i] end
  end
end

local function host_of(name)
  local host = hosts[name]
  if host then return host end
  local packed = prefetched[name]
  if packed == nil then packed = call('HGET', tag .. ':h', name) end
  return unpack_host(name, packed)
end

-- Record a request that ended with a normal response without unpacking its host; return whether that was possible. It
-- is possible if no lane has to be rescheduled and the slow-down does not change, which is the usual case.
local function patch_settled(name, landed)
  local packed = not hosts[name] and prefetched[name]
  if not packed then return false end
  local slow, _, concurrency, inflight, failures, version, clear, flags = parse(SLOW_ON, packed, SLOW_AT)
  if slow ~= 1 or flags % HAS_HEAD_START ~= 0 or version ~= meta.version or inflight >= concurrency then return false end
  if landed == 0 and inflight > 0 then inflight = inflight - 1 end
  if flags >= (inflight + 1) * PENDING then return false end
  if clear < MAX_CLEAR then clear = clear + 1 end
  packed = sub(packed, 1, INFLIGHT_AT - 1) .. pack('>HIIH', inflight, failures, version, clear)
    .. sub(packed, FLAGS_AT)
  prefetched[name] = packed
  patched_states[#patched_states + 1], patched_states[#patched_states + 2] = name, packed
  return true
end

-- Take a turn for one request.
local function charge_turn(host, token)
  local tat = host[TAT]
  host[INFLIGHT] = host[INFLIGHT] + 1
  host[TAT] = (tat < now and now or tat) + host[INTERVAL]
  host[LAST], host[TOKEN] = math.max(host[LAST], now), token
  if host[INTERVAL] > 0 then set_pending_leases(host, pending_leases(host) + 1) end
  update_ready(host)
  mark_dirty(host)
end

-- Refund the turn of a request that never left, unless a later lease took one or the pace changed.
local function refund_turn(host, token, interval)
  local pending = pending_leases(host)
  if token == host[TOKEN] or pending > 0 and host[TOKEN] == 0 then
    host[TAT] = host[TAT] - interval
    update_ready(host)
  end
  set_pending_leases(host, math.max(pending - 1, 0))
  mark_dirty(host)
end

local function rest_host(host, until_instant)
  host[REST_UNTIL] = math.max(host[REST_UNTIL], until_instant)
  update_ready(host)
  mark_dirty(host)
end

-- The signals of responses, and the numbers of `model/adaptive_delay.py`.
local NORMAL, RATE_LIMITED, LATE = 0, 2, 7
local WEIGHTS = {1, 1, 1, 0.5, 0.5, 0.5, 0.25}
local FEW, NEIGHBOURS, CHANCE, RECOVERY = 5, 10, 0.01, 0.02
local STEP, MAX_RUN, RECOVERY_RUN, MAX_NORMAL_RUN, NEARLY_USUAL = 0.05, 5, 10, 100, 1.005

local function trouble_share(responses)
  local sum = 0
  for signal = 1, #WEIGHTS do
    local _, number = string.gsub(responses, tostring(signal), '')
    sum = sum + WEIGHTS[signal] * number
  end
  return sum / #responses
end

-- Return how many of the last responses, up to a limit, were normal, or were not.
local function last_run(responses, is_normal, limit)
  local run = 0
  while run < limit and run < #responses and (byte(responses, #responses - run) == 48) == is_normal do run = run + 1 end
  return run
end

-- Return the slow factor of a host after the last of its responses (`next_slow_factor`).
local function next_slow_factor(slow, responses, interval, rules)
  local signal = byte(responses, #responses) - 48
  if signal == NORMAL then
    local _, runs = string.gsub(responses, '0[1-7]', '')
    if runs <= 1 then
      slow = 1 / (1 / slow + RECOVERY)
      return slow < NEARLY_USUAL and 1 or tonumber(format('%.6f', slow))
    end
    local run = last_run(responses, true, MAX_NORMAL_RUN)
    slow = slow / (1 + STEP * rules.threshold * run / RECOVERY_RUN)
    return slow < NEARLY_USUAL and 1 or tonumber(format('%.6f', slow))
  end
  if signal ~= RATE_LIMITED and #responses < rules.at_least or interval >= rules.ceiling then return slow end
  local run = last_run(responses, false, MAX_RUN)
  local throttle = 1 - math.exp(-trouble_share(responses) / rules.threshold)
  local longer = tonumber(format('%.6f', slow * (1 + STEP * WEIGHTS[signal] * throttle * run)))
  if signal == RATE_LIMITED then return longer end
  local _, normal = string.gsub(responses, '0', '')
  return math.max(slow, math.min(longer, tonumber(format('%.6f', 1 + rules.reach * (1 - normal / #responses)))))
end

local function responses_of(host)
  if not has_flag(host[FLAGS], HAS_RESPONSES) then return '' end
  return host[RESPONSES] or call('HGET', tag .. ':hw', host[NAME]) or ''
end

-- Return whether a request that has failed before fails alone, its host serving others (`is_lone`).
local function is_lone(signal, charged, rests, responses)
  local latest = sub(responses, -NEIGHBOURS)
  local _, served = string.gsub(latest, '[07]', '')
  if 2 * served < #latest or latest == '' then return false end
  if signal ~= RATE_LIMITED then return true end
  local _, limited = string.gsub(responses, '2', '')
  if rests == 0 or limited == 0 then return rests > 0 and charged > 0 end
  local since = string.match(responses, '[^2]*$')
  local any_served = string.find(since, '[07]')
  local first = charged == 0 and served >= FEW and #since < FEW
  if limited <= rests and (first or charged > 0 and any_served) then return true end
  return any_served and charged + rests > 1 and (limited / #responses) ^ (charged + rests) < CHANCE
end

-- Take back what the refusals of a request that was at fault did to its host (`take_back`).
local function take_back(host, responses, charged, rests)
  local _, limited = string.gsub(responses, '2', '')
  if limited == 0 then return end
  local refusals = math.min(limited, rests)
  if charged == 0 then
    host[SLOW] = math.max(tonumber(format('%.6f', host[SLOW] / (1 + STEP) ^ refusals)), 1)
  end
  if string.find(string.match(responses, '[^2]*$'), '[07]') and (charged == 0 or limited <= rests) then
    responses = string.gsub(responses, '2', '', refusals)
  end
  host[RESPONSES] = responses
  host[FLAGS] = with_flag(host[FLAGS], HAS_RESPONSES, true)
  apply_pace(host)
end

-- Return whether an attempt says something about its request only; take back what its earlier refusals did to the host
-- (`Governor.blames_request`).
local function blames_request(host, signal, charged, rests)
  if signal == NORMAL or signal == LATE or charged + rests == 0 then return false end
  local responses = responses_of(host)
  if responses == '' then responses = string.rep('0', math.min(host[CLEAR], slowdown_rules(host).window)) end
  if not is_lone(signal, charged, rests, responses) then return false end
  if signal == RATE_LIMITED then take_back(host, responses, charged, rests) end
  return true
end

-- Return the delay of a request that was refused with 429 or 503 (`retry_delay`).
local function retry_delay(host, delay, rest)
  local _, known = string.gsub(sub(responses_of(host), -NEIGHBOURS), '0', '')
  return known >= FEW and delay or math.max(delay, rest + FEW * host[INTERVAL])
end

-- Forget the latest responses and the slow factor; the caller applies the pace.
local function clear_slowdown(host)
  host[SLOW], host[CLEAR], host[RESPONSES] = 1, 0, false
  if has_flag(host[FLAGS], HAS_RESPONSES) then call('HDEL', tag .. ':hw', host[NAME]) end
  host[FLAGS] = with_flag(host[FLAGS], HAS_RESPONSES, false)
end

-- Record a response and update the slow factor, which changes the pace.
local function record_response(host, signal)
  local responses = responses_of(host)
  local rules = slowdown_rules(host)
  if responses == '' then
    if signal == NORMAL and host[SLOW] == 1 then
      host[CLEAR] = math.min(host[CLEAR] + 1, MAX_CLEAR)
      return
    end
    responses = string.rep('0', math.min(host[CLEAR], rules.window - 1))
  end
  responses = sub(responses .. signal, -rules.window)
  host[RESPONSES], host[FLAGS] = responses, with_flag(host[FLAGS], HAS_RESPONSES, true)
  local slow = next_slow_factor(host[SLOW], responses, host[INTERVAL], rules)
  if slow ~= host[SLOW] then
    host[SLOW] = slow
    apply_pace(host)
  end
end

-- --- schedules -------------------------------------------------------------------------------------

local lane_keys_cache = {}  -- crawl -> pool -> names of keys: every lane needs the same few

local function lane_keys(crawl, pool)
  local pools = lane_keys_cache[crawl]
  if not pools then
    pools = {}
    lane_keys_cache[crawl] = pools
  end
  local keys = pools[pool]
  if not keys then
    local ending = ':' .. crawl .. ':' .. pool
    keys = {schedule = tag .. ':li' .. ending, suspect_schedule = tag .. ':xli' .. ending,
      fresh = tag .. ':q' .. ending .. ':', returned = tag .. ':w' .. ending .. ':',
      suspects = tag .. ':x' .. ending .. ':', bands = {}}
    pools[pool] = keys
  end
  return keys
end

local function schedule_of(lane)
  local keys = lane_keys(lane[CRAWL], lane[POOL])
  return lane[LANE_FLAGS] % 2 == SUSPECT and keys.suspect_schedule or keys.schedule
end

-- Return the step at which a lane is due: that of its host, but not before the moment of the lane.
local function due_step(ready, moment)
  local first = math.floor((ready - FIRST_STEP_AT) * STEPS)
  if first < moment then first = moment end
  return first < SCHEDULE_BAND and first or SCHEDULE_BAND - 1
end

-- Schedule the lanes of a host, or unschedule them: empty lanes, and all lanes while the host is paused or has as many
-- requests in flight as it may.
local function schedule_lanes(host)
  local open, ready, own = is_open(host), host[READY], host[LANES]
  local moved = ready ~= host[SCHEDULED_READY]
  for i = 1, #own do
    local lane = own[i]
    local flags, band = lane[LANE_FLAGS], lane[BAND]
    local is_scheduled = flags % RETURNED >= SCHEDULED
    if open and band ~= EMPTY then
      if moved or lane[CHANGED] or not is_scheduled then
        local score = format('%d', band * SCHEDULE_BAND + due_step(ready, lane[MOMENT]))
        push(schedule_adds, schedule_of(lane), score, host[NAME])
        if not is_scheduled then lane[LANE_FLAGS] = flags + SCHEDULED end
      end
    elseif is_scheduled then
      push(zset_removals, schedule_of(lane), host[NAME])
      lane[LANE_FLAGS] = flags - SCHEDULED
    end
    lane[CHANGED] = false
  end
  host[SCHEDULED_READY] = ready
end

local function pack_lane(lane)
  local pool = lane[POOL]
  return pack(LANE, lane[CRAWL], lane[LANE_FLAGS], lane[BAND], lane[FRESH], lane[MOMENT], #pool, pool)
end

local function pack_host(host)
  local own = host[LANES]
  host[NUMBER] = math.min(#own, MAX_NUMBER)
  local packed = pack(HOST, unpack(host, TAT, NUMBER))
  if #own == 1 then return packed .. pack_lane(own[1]) end
  local parts = {packed}
  for i = 1, #own do parts[i + 1] = pack_lane(own[i]) end
  return table.concat(parts)
end

-- Write the changed hosts, and all pending changes of sets, lists, hashes and counters.
local function save()
  local states, size, responses = patched_states, #patched_states, {}
  for i = 1, #dirty_hosts do
    local host = dirty_hosts[i]
    schedule_lanes(host)
    states[size + 1], states[size + 2] = host[NAME], pack_host(host)
    size = size + 2
    if host[RESPONSES] then responses[#responses + 1], responses[#responses + 2] = host[NAME], host[RESPONSES] end
    host[DIRTY] = false
  end
  dirty_hosts, patched_states = {}, {}
  save_schedules()
  call_with('HSET', tag .. ':h', states)
  call_with('HSET', tag .. ':hw', responses)
  save_additions()
  save_removals()
end
