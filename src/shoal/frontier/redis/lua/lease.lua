-- lease.lua: grant leases on requests whose host is due.
--
-- KEYS[1]  T:m
-- ARGV     holder, id of the call, limit, seconds, epoch of the server process, 1 if the holder may have a suspect,
--          crawls (>I each), pools (s1 each), landed requests (leases.lua), seconds that a host may be due after this
--          call, name under which the holder takes turns and its leeway (rate_ticket.lua)
-- returns  token, deadline, seconds to wait, band of the best request that is left, the requests (LEASED), the leases
--          that were reclaimed (>dc12 token and id), lanes that need a chunk back (spilled.lua)
--
-- The best band goes first; within a band, the lane that has been due for longest. Schedules are in that order. The
-- work is bounded by what can be granted, however many requests are waiting.

local holder, call_id, limit, seconds, epoch = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local ahead, taker, leeway = tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])
local EXTRA_LANES = 8  -- lanes read beyond the limit: some of their hosts will have been served by then
local MAX_CHORES = 64  -- leases reclaimed and delays ended per call

check_epoch(epoch)

local open_crawls, crawls, pools, position = {}, {}, {}, 1  -- crawls: those that are not paused
for at = 1, #ARGV[7], 4 do
  local crawl = parse('>I', ARGV[7], at)
  local options = options_of(crawl)
  if options then
    open_crawls[#open_crawls + 1] = crawl
    if options.paused == 0 then crawls[#crawls + 1] = crawl end
  end
end
while position <= #ARGV[8] do
  pools[#pools + 1], position = parse('>Bc0', ARGV[8], position)
end

mark_landed(ARGV[9])
local lost = reclaim(MAX_CHORES)
for _, crawl in ipairs(open_crawls) do promote_delayed(crawl, MAX_CHORES) end
if #dirty_hosts + #lost > 0 or next(counter_changes) then  -- usually there is nothing to write
  save()
  save_batches()
end
local suspects_allowed = ARGV[6] == '1' and not call('HGET', tag .. ':su', holder)

-- --- the next lanes --------------------------------------------------------------------------------

local schedules = {}  -- each with its next band that has a due lane
for _, crawl in ipairs(crawls) do
  for _, pool in ipairs(pools) do
    local keys = lane_keys(crawl, pool)
    schedules[#schedules + 1] = {key = keys.schedule, crawl = crawl, pool = pool, suspect = false, band = 0}
    if suspects_allowed then
      schedules[#schedules + 1] = {key = keys.suspect_schedule, crawl = crawl, pool = pool, suspect = true, band = 0}
    end
  end
end

local reach = now + ahead  -- hosts that are due until then are served
-- Moments may be ahead of the clock, and their lanes are due. Hosts where the holder has a head start are due earlier.
local horizon = math.max(step + math.floor((ahead + leeway) * STEPS), meta.moment)
local more = false  -- whether there may be due lanes that were not read

-- Return the first lane at or after a score of the schedule: its host, its band, and the step at which it is due.
local function first_from(schedule, place)
  local found = call('ZRANGEBYSCORE', schedule.key, place, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  if not found[1] then return nil end
  local score = tonumber(found[2])
  local band = math.floor(score / SCHEDULE_BAND)
  return found[1], band, score - band * SCHEDULE_BAND
end

-- Set the schedule's next band that has a due lane; nil: no band has.
local function advance(schedule, band)
  local _, found, at = first_from(schedule, format_int(band * SCHEDULE_BAND))
  while found and at > horizon do
    _, found, at = first_from(schedule, format_int((found + 1) * SCHEDULE_BAND))
  end
  schedule.band = found
end

-- Return the hosts that are due in a band of a schedule, and their states.
local function hosts_in(schedule, band)
  local wanted = limit + EXTRA_LANES
  local names = call('ZRANGEBYSCORE', schedule.key, format_int(band * SCHEDULE_BAND),
    format_int(band * SCHEDULE_BAND + horizon), 'LIMIT', '0', format_int(wanted))
  more = more or #names == wanted
  return names, #names > 0 and call('HMGET', tag .. ':h', unpack(names))
end

-- Correct a lane that is scheduled elsewhere than its host records, because a script was aborted.
local function repair_lane(lane)
  rescan_lane(lane)
  lane[LANE_FLAGS], lane[CHANGED] = with_flag(lane[LANE_FLAGS], SCHEDULED, true), true
  mark_dirty(lane[OF_HOST])
  more = true
end

-- Return the scheduled lane of a host; nil: it had to be repaired. The host may have been read before.
local function lane_at(name, packed, schedule, band)
  local host = hosts[name] or unpack_host(name, packed)
  local lane = find_lane(host, schedule.crawl, schedule.pool, schedule.suspect)
  if lane and lane[BAND] == band then return lane end
  repair_lane(lane or ensure_lane(host, schedule.crawl, schedule.pool, schedule.suspect))
end

local function by_due(one, other)
  if one.due ~= other.due then return one.due < other.due end
  if one.name ~= other.name then return one.name < other.name end
  return one.moment < other.moment
end

-- Return the lanes of a band in several schedules, in the order in which they are served.
local function merge_lanes(band, schedules_in_band)
  local candidates = {}
  for _, schedule in ipairs(schedules_in_band) do
    local names, states = hosts_in(schedule, band)
    for i, name in ipairs(names) do
      local lane = lane_at(name, states[i], schedule, band)
      if lane then
        local moment = lane[MOMENT]
        candidates[#candidates + 1] = {
          due = due_step(lane[OF_HOST][READY], moment), name = name, moment = moment, lane = lane,
        }
      end
    end
  end
  table.sort(candidates, by_due)
  return candidates
end

-- Move a candidate that became due later behind those that are due before it.
local function move_later(candidates, at)
  local candidate = candidates[at]
  while candidates[at + 1] and by_due(candidates[at + 1], candidate) do
    candidates[at] = candidates[at + 1]
    at = at + 1
  end
  candidates[at] = candidate
end

-- --- the next request of a lane --------------------------------------------------------------------

-- Return the next new link, and its band.
local function fresh_head(lane)
  while lane[FRESH] > 0 do
    local read = lane[READ]
    if not read then
      local band, fresh, host = lane[BAND], lane[FRESH], lane[OF_HOST]
      while fresh % 2 ^ (band + 1) < 2 ^ band do band = band + 1 end
      -- One more than will be taken: the band of the next one becomes the lane's.
      local paced = host[INTERVAL] > 0 and host[BURST] == 1
      local key = fresh_of(lane, band)
      read = call('LRANGE', key, '0', paced and '1' or '7')
      lane[READ], lane[READ_KEY], lane[READ_BAND] = read, key, band
      lane[UNREAD], lane[TAKEN] = #read == (paced and 2 or 8), 0
    end
    local next_one = lane[TAKEN] + 1
    if not read[next_one] and lane[UNREAD] then
      local found = call('LRANGE', lane[READ_KEY], #read, #read + 15)
      for i = 1, #found do read[#read + 1] = found[i] end
      lane[UNREAD] = #found == 16
    end
    if read[next_one] then return read[next_one], lane[READ_BAND] end
    lane[FRESH], lane[READ] = lane[FRESH] - 2 ^ lane[READ_BAND], false  -- the list of the band is empty
  end
end

-- Return the next returned request.
local function returned_head(lane)
  local back = lane[BACK]
  if not back or not back[lane[BACK_TAKEN] + 1] then
    local first = back and #back or 0
    back = back or {}
    for _, entry in ipairs(call('ZRANGE', returned_of(lane), first, first + 15)) do back[#back + 1] = entry end
    lane[BACK] = back
  end
  local entry = back[lane[BACK_TAKEN] + 1]
  if not entry then lane[LANE_FLAGS] = with_flag(lane[LANE_FLAGS], RETURNED, false) end
  return entry
end

-- Return the entry that goes next, its band, and whether it is a returned one.
local function head_of(lane)
  local entry, band = fresh_head(lane)
  if lane[LANE_FLAGS] < RETURNED then return entry, band end
  local back = returned_head(lane)
  if not back then return entry, band end
  local back_band = band_of(back)
  if entry and (band < back_band or band == back_band and ordinal_of(entry) < ordinal_of(back)) then
    return entry, band
  end
  return back, back_band, true
end

local function take_out(lane, entry, came_back)
  if came_back then
    lane[BACK_TAKEN] = lane[BACK_TAKEN] + 1
    push(zset_removals, returned_of(lane), entry)
  else
    lane[TAKEN] = lane[TAKEN] + 1
    list_pops[lane[READ_KEY]] = lane[TAKEN]
  end
end

-- --- granting --------------------------------------------------------------------------------------

local leased_until = now + seconds
local granted_at = server_time(now)
local token = math.max(meta.token + 1, math.floor(now * 1e6))
local records, granted, numbers, suspect_granted = {}, {}, {}, false  -- numbers: leases by crawl
local short_lanes = {}  -- served lanes that have chunks -> how many requests were taken
local granted_ids = {}  -- ids in this batch

local function add_lease(host, lane, id, entry)
  local name, pool, crawl, number = host[NAME], lane[POOL], lane[CRAWL], #granted + 1
  local record = pack(LEASED, leased_until, granted_at, 0, host[INTERVAL], host[BURST], crawl, #name, name, #pool, pool)
    .. entry
  records[2 * number - 1], records[2 * number], granted[number] = id, record, record
  numbers[crawl] = (numbers[crawl] or 0) + 1
  count_pool(crawl, pool, -1)
  charge_turn(host, token)
  lane[MOMENT], lane[CHANGED] = next_moment(), true
  local flags = lane[LANE_FLAGS] % SCHEDULED
  if flags >= SPILLED then short_lanes[lane] = (short_lanes[lane] or 0) + 1 end
  if flags % 2 == SUSPECT then suspects_allowed, suspect_granted = false, true end
end

local function grant(host, lane)
  local entry, _, came_back = head_of(lane)
  if not entry then  -- a script was aborted
    lane[BAND] = EMPTY
    mark_dirty(host)
    return
  end
  take_out(lane, entry, came_back)
  local id = lease_id(lane[CRAWL], entry)
  if granted_ids[id] then  -- it was waiting twice, because a script was aborted
    count(lane[CRAWL], 'waiting', -1)
    count_pool(lane[CRAWL], lane[POOL], -1)
    mark_dirty(host)
  else
    granted_ids[id] = true
    add_lease(host, lane, id, entry)
  end
  local read = lane[READ]
  if not read or not read[lane[TAKEN] + 1] or lane[LANE_FLAGS] >= RETURNED then  -- usually the next has the same band
    local _, band = head_of(lane)
    lane[BAND] = band or EMPTY
  end
end

local only_schedule = nil  -- the one that has due lanes, if there is only one, as usual
local served = {}  -- band -> lanes that can be served again, after all others of the band

local function is_due(host)
  local ready = host[READY]
  return ready <= reach or leeway > 0 and ready <= reach + leeway and ready - head_start(host, taker) <= reach
end

local function serve(lane)
  local host = lane[OF_HOST]
  if not is_due(host) then  -- another of its lanes took the turn, or it becomes due within this step
    more = more or host[READY] > now and host[READY] < now + 1 / STEPS
    return
  end
  if not is_open(host) then return end
  if lane[LANE_FLAGS] % 2 == SUSPECT and not suspects_allowed then return end
  grant(host, lane)
  if lane[BAND] ~= EMPTY and is_due(host) and is_open(host) then push(served, lane[BAND], lane) end
end

-- Serve the lanes of a band as scheduled, then those that can be served again.
local function serve_band(band)
  local schedules_in_band = {}
  for _, schedule in ipairs(schedules) do
    if schedule.band == band then schedules_in_band[#schedules_in_band + 1] = schedule end
  end
  if only_schedule then  -- already in order
    local names, states = hosts_in(only_schedule, band)
    for i = 1, #names do
      if #granted == limit then return end
      local lane = lane_at(names[i], states[i], only_schedule, band)
      if lane then serve(lane) end
    end
  else
    local candidates, at = merge_lanes(band, schedules_in_band), 1
    while candidates[at] do
      if #granted == limit then return end
      local candidate = candidates[at]
      local current = due_step(candidate.lane[OF_HOST][READY], candidate.moment)
      if current == candidate.due then
        serve(candidate.lane)
        at = at + 1
      else  -- another lane of its host was served
        candidate.due = current
        move_later(candidates, at)
      end
    end
  end
  local behind, number = served[band], 1
  while behind and behind[number] do
    if #granted == limit then return end
    serve(behind[number])
    number = number + 1
  end
  served[band] = nil
  for _, schedule in ipairs(schedules_in_band) do advance(schedule, band + 1) end
end

-- Return the best band that has a request to serve.
local function best_band()
  local best = nil
  for _, schedule in ipairs(schedules) do
    if schedule.band and (suspects_allowed or not schedule.suspect) then
      best = math.min(best or schedule.band, schedule.band)
    end
  end
  for band in pairs(served) do best = math.min(best or band, band) end
  return best
end

local function serve_all()
  local due_lines = {}
  for _, schedule in ipairs(schedules) do
    advance(schedule, 0)
    if schedule.band then due_lines[#due_lines + 1] = schedule end
  end
  if #due_lines == 1 then only_schedule = due_lines[1] end
  local band = best_band()
  while band and #granted < limit do
    serve_band(band)
    band = best_band()
  end
  for crawl, number in pairs(numbers) do
    count(crawl, 'waiting', -number)
    count(crawl, 'leased', number)
  end
  return band
end

-- Return the seconds after which another call can grant something.
local function wait_hint()
  if #granted == limit or more then return 0 end
  local first = math.huge
  local function consider(key)
    local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then first = math.min(first, tonumber(head[2])) end
  end
  for _, schedule in ipairs(schedules) do
    local name, band, at = first_from(schedule, '0')
    while name and (suspects_allowed or not schedule.suspect) do
      if at <= step then  -- it was read above
        name, band, at = first_from(schedule, format_int(band * SCHEDULE_BAND + step + 1))
      else
        local host = host_of(name)
        first = math.min(first, host[READY] - (leeway > 0 and head_start(host, taker) or 0) - ahead)
        name, band, at = first_from(schedule, format_int((band + 1) * SCHEDULE_BAND))
      end
    end
  end
  for _, crawl in ipairs(crawls) do consider(tag .. ':dl:' .. crawl) end
  consider(tag .. ':lx')
  consider(tag .. ':rf')
  return math.max(first - now, 0)
end

-- Load the batch of a call that is repeated because its reply was lost.
local function load_repeated()
  local latest = call('GET', tag .. ':ca:' .. holder)
  if not latest or sub(latest, 9) ~= call_id then return false end
  token = parse('>d', latest)
  for _, record in pairs(load_batch(token).records) do
    granted[#granted + 1] = record
    leased_until = deadline_of(record)
  end
  return true
end

local best = nil
if not load_repeated() and limit > 0 then
  best = serve_all()
  if #granted > 0 then
    meta.token = token
    call('HSET', KEYS[1], 'token', token)  -- first: no other batch may ever have this token
    -- Deadline first: one without a batch is found and removed; a batch without a deadline would never expire.
    call('ZADD', tag .. ':lx', leased_until, format('%.0f', token))
    records[#records + 1], records[#records + 2] = '_', '0' .. holder
    call('HSET', batch_key(token), unpack(records))
    if suspect_granted then hold_suspect(holder, 1) end
    call('SET', tag .. ':ca:' .. holder, pack('>d', token) .. call_id,
      'PX', math.max(math.ceil(seconds * 1000), 1))
  end
  -- Before the lanes are saved as empty: an empty lane is not scheduled, and no lease would find it.
  for lane, number in pairs(short_lanes) do request_chunk(lane, number) end
  save()
end
local wanted = due_chunk_requests()
sweep_idle_hosts()
return {
  format('%.0f', token), format_double(server_time(leased_until)), format_double(wait_hint()), best or '',
  granted, lost, wanted,
}
