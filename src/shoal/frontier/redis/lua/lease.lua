-- lease.lua: hand out requests whose host is due.
--
-- ARGV     holder, call, limit, seconds, epoch of the server process, 1 if the holder may have a suspect,
--          crawls (>I each), pools (s1 each), what has landed (leases.lua)
-- returns  token, deadline, seconds to wait, band of the best that is left, the requests (LEASED), the leases that
--          were taken back (>dc12 token and id), lanes that want a chunk back (spilled.lua)
--
-- Best band first; in a band the lane that has been due for longest. Lines are in that order. What is looked at is
-- bounded by what can be handed out, however much waits.

local holder, call_id, limit, seconds, epoch = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local MORE = 8  -- lanes looked at beyond the limit: some of their hosts will have been served by then
local CHORES = 64  -- leases taken back and delays ended per call

notice(epoch)

local given, crawls, pools, position = {}, {}, {}, 1  -- crawls: those that are not paused
for at = 1, #ARGV[7], 4 do
  local crawl = parse('>I', ARGV[7], at)
  local terms = terms_of(crawl)
  if terms then
    given[#given + 1] = crawl
    if terms.paused == 0 then crawls[#crawls + 1] = crawl end
  end
end
while position <= #ARGV[8] do
  pools[#pools + 1], position = parse('>Bc0', ARGV[8], position)
end

land(ARGV[9])
local lost = reclaim(CHORES)
for _, crawl in ipairs(given) do promote(crawl, CHORES) end
if #touched + #lost > 0 or next(counted) then  -- mostly there was nothing to do
  save()
  save_batches()
end
local suspects_allowed = ARGV[6] == '1' and not call('HGET', tag .. ':su', holder)

-- --- who is next -----------------------------------------------------------------------------------

local lines = {}  -- each with the next of its bands in which any lane stands
for _, crawl in ipairs(crawls) do
  for _, pool in ipairs(pools) do
    local roster = roster_of(crawl, pool)
    lines[#lines + 1] = {key = roster.line, crawl = crawl, pool = pool, suspect = false, band = 0}
    if suspects_allowed then
      lines[#lines + 1] = {key = roster.suspects, crawl = crawl, pool = pool, suspect = true, band = 0}
    end
  end
end

local horizon = math.max(step, meta.moment)  -- lanes are due that have a moment, though it may be ahead of the clock
local more = false  -- whether there may be lanes that are due and that nobody looked at

-- Find the first lane from a place in line on: its host, its band, and when it is due.
local function first_from(line, place)
  local found = call('ZRANGEBYSCORE', line.key, place, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  if not found[1] then return nil end
  local score = tonumber(found[2])
  local band = math.floor(score / LINE)
  return found[1], band, score - band * LINE
end

-- Move on to the next band in which a lane is due; nil: there is none.
local function advance(line, band)
  local _, found, at = first_from(line, printed(band * LINE))
  while found and at > horizon do
    _, found, at = first_from(line, printed((found + 1) * LINE))
  end
  line.band = found
end

-- List the hosts that are due in a band of a line, and their states.
local function hosts_in(line, band)
  local wanted = limit + MORE
  local names = call('ZRANGEBYSCORE', line.key, printed(band * LINE), printed(band * LINE + horizon), 'LIMIT', '0',
    printed(wanted))
  more = more or #names == wanted
  return names, #names > 0 and call('HMGET', tag .. ':h', unpack(names))
end

-- Find out what really waits in a lane that stands elsewhere than its host says: a script was cut short.
local function mend(lane)
  look_into(lane)
  lane[LANE_FLAGS], lane[CHANGED] = with_flag(lane[LANE_FLAGS], IN_LINE, true), true
  touch(lane[OF_HOST])
  more = true
end

-- Give the lane of a host that stands in line; nil: not as it should. The host's state may be known already.
local function lane_at(name, packed, line, band)
  local host = hosts[name] or unpack_host(name, packed)
  local lane = find_lane(host, line.crawl, line.pool, line.suspect)
  if lane and lane[BAND] == band then return lane end
  mend(lane or lane_of(host, line.crawl, line.pool, line.suspect))
end

local function by_turn(one, other)
  if one.due ~= other.due then return one.due < other.due end
  if one.name ~= other.name then return one.name < other.name end
  return one.moment < other.moment
end

-- List the lanes of a band in several lines, in the order in which they are served.
local function merged(band, standing)
  local turns = {}
  for _, line in ipairs(standing) do
    local names, states = hosts_in(line, band)
    for i, name in ipairs(names) do
      local lane = lane_at(name, states[i], line, band)
      if lane then
        local moment = lane[MOMENT]
        turns[#turns + 1] = {due = due(lane[OF_HOST][READY], moment), name = name, moment = moment, lane = lane}
      end
    end
  end
  table.sort(turns, by_turn)
  return turns
end

-- Let one that is due later than it was go behind those that are due before it.
local function step_back(turns, at)
  local turn = turns[at]
  while turns[at + 1] and by_turn(turns[at + 1], turn) do
    turns[at] = turns[at + 1]
    at = at + 1
  end
  turns[at] = turn
end

-- --- what waits in a lane --------------------------------------------------------------------------

-- Give the next of its new links, and their band.
local function fresh_head(lane)
  while lane[FRESH] > 0 do
    local read = lane[READ]
    if not read then
      local band, fresh, host = lane[BAND], lane[FRESH], lane[OF_HOST]
      while fresh % 2 ^ (band + 1) < 2 ^ band do band = band + 1 end
      -- One more than will be taken: the band of the next one is the lane's.
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
    lane[FRESH], lane[READ] = lane[FRESH] - 2 ^ lane[READ_BAND], false  -- that was the last of its band
  end
end

-- Give the next of what came back.
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

-- Give the entry that goes next, its band, and whether it is one that came back.
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
    push(removed, returned_of(lane), entry)
  else
    lane[TAKEN] = lane[TAKEN] + 1
    popped[lane[READ_KEY]] = lane[TAKEN]
  end
end

-- --- granting --------------------------------------------------------------------------------------

local leased_until = now + seconds
local granted_at = told(now)
local token = math.max(meta.token + 1, math.floor(now * 1e6))
local records, granted, numbers, suspect_granted = {}, {}, {}, false  -- numbers: how many, by crawl
local short = {}  -- lanes with chunks that were served -> how many they have given
local out = {}  -- ids in this batch

local function hand_out(host, lane, id, entry)
  local name, pool, crawl, number = host[NAME], lane[POOL], lane[CRAWL], #granted + 1
  local record = pack(LEASED, leased_until, granted_at, 0, host[INTERVAL], host[BURST], crawl, #name, name, #pool, pool)
    .. entry
  records[2 * number - 1], records[2 * number], granted[number] = id, record, record
  numbers[crawl] = (numbers[crawl] or 0) + 1
  count_pool(crawl, pool, -1)
  take(host, token)
  lane[MOMENT], lane[CHANGED] = next_moment(), true
  local flags = lane[LANE_FLAGS] % IN_LINE
  if flags >= SPILLED then short[lane] = (short[lane] or 0) + 1 end
  if flags % 2 == SUSPECT then suspects_allowed, suspect_granted = false, true end
end

local function grant(host, lane)
  local entry, _, came_back = head_of(lane)
  if not entry then  -- a script was cut short
    lane[BAND] = EMPTY
    touch(host)
    return
  end
  take_out(lane, entry, came_back)
  local id = lease_id(lane[CRAWL], entry)
  if out[id] then  -- it waited twice, since a script was cut short
    count(lane[CRAWL], 'waiting', -1)
    count_pool(lane[CRAWL], lane[POOL], -1)
    touch(host)
  else
    out[id] = true
    hand_out(host, lane, id, entry)
  end
  local read = lane[READ]
  if not read or not read[lane[TAKEN] + 1] or lane[LANE_FLAGS] >= RETURNED then  -- mostly the next is as the one before
    local _, band = head_of(lane)
    lane[BAND] = band or EMPTY
  end
end

local only_line = nil  -- where no other has lanes that are due, as mostly
local again = {}  -- band -> lanes that were served and can be served again, behind all others of the band

local function serve(lane)
  local host = lane[OF_HOST]
  if host[READY] > now then  -- another of its lanes took the turn, or it is due before the step ends
    more = more or host[READY] < now + 1 / STEPS
    return
  end
  if not is_open(host) then return end
  if lane[LANE_FLAGS] % 2 == SUSPECT and not suspects_allowed then return end
  grant(host, lane)
  if lane[BAND] ~= EMPTY and host[READY] <= now and is_open(host) then push(again, lane[BAND], lane) end
end

-- Serve the lanes of a band: as they stand in line, then those that can be served again.
local function serve_band(band)
  local standing = {}
  for _, line in ipairs(lines) do
    if line.band == band then standing[#standing + 1] = line end
  end
  if only_line then  -- in order already
    local names, states = hosts_in(only_line, band)
    for i = 1, #names do
      if #granted == limit then return end
      local lane = lane_at(names[i], states[i], only_line, band)
      if lane then serve(lane) end
    end
  else
    local turns, at = merged(band, standing), 1
    while turns[at] do
      if #granted == limit then return end
      local turn = turns[at]
      local current = due(turn.lane[OF_HOST][READY], turn.moment)
      if current == turn.due then
        serve(turn.lane)
        at = at + 1
      else  -- another lane of its host was served
        turn.due = current
        step_back(turns, at)
      end
    end
  end
  local behind, number = again[band], 1
  while behind and behind[number] do
    if #granted == limit then return end
    serve(behind[number])
    number = number + 1
  end
  again[band] = nil
  for _, line in ipairs(standing) do advance(line, band + 1) end
end

-- Give the best band in which anything may go.
local function best_band()
  local best = nil
  for _, line in ipairs(lines) do
    if line.band and (suspects_allowed or not line.suspect) then best = math.min(best or line.band, line.band) end
  end
  for band in pairs(again) do best = math.min(best or band, band) end
  return best
end

local function serve_all()
  local due_lines = {}
  for _, line in ipairs(lines) do
    advance(line, 0)
    if line.band then due_lines[#due_lines + 1] = line end
  end
  if #due_lines == 1 then only_line = due_lines[1] end
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

-- Say when asking again can help.
local function wait_hint()
  if #granted == limit or more then return 0 end
  local first = math.huge
  local function consider(key)
    local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then first = math.min(first, tonumber(head[2])) end
  end
  for _, line in ipairs(lines) do
    local name, band, at = first_from(line, '0')
    while name and (suspects_allowed or not line.suspect) do
      if at <= step then  -- it was looked at
        name, band, at = first_from(line, printed(band * LINE + step + 1))
      else
        first = math.min(first, host_of(name)[READY])
        name, band, at = first_from(line, printed((band + 1) * LINE))
      end
    end
  end
  for _, crawl in ipairs(crawls) do consider(tag .. ':dl:' .. crawl) end
  consider(tag .. ':lx')
  consider(tag .. ':rf')
  return math.max(first - now, 0)
end

-- A call that is repeated because its answer was lost gets the same batch again.
local function repeated()
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
if not repeated() and limit > 0 then
  best = serve_all()
  if #granted > 0 then
    meta.token = token
    call('HSET', KEYS[1], 'token', token)  -- first: no other batch may ever have the same
    -- A deadline without a batch is found and taken away; a batch without a deadline would be out for ever.
    call('ZADD', tag .. ':lx', leased_until, format('%.0f', token))
    records[#records + 1], records[#records + 2] = '_', '0' .. holder
    call('HSET', batch_key(token), unpack(records))
    if suspect_granted then hold_suspect(holder, 1) end
    call('SET', tag .. ':ca:' .. holder, pack('>d', token) .. call_id,
      'PX', math.max(math.ceil(seconds * 1000), 1))
  end
  -- Before they are told that they may be empty: an empty lane stands in no line, and no lease comes across it.
  for lane, number in pairs(short) do want_chunk(lane, number) end
  save()
end
local wanted = wanted_chunks()
sweep()
return {
  format('%.0f', token), exact(told(leased_until)), exact(wait_hint()), best or '',
  granted, lost, wanted,
}
