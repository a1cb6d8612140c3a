-- lease.lua: hand out requests whose host is due.
--
-- ARGV     holder, call, limit, seconds, epoch of the server process, 1 if the holder may have a suspect,
--          crawls (>I each), pools (s1 each), what has landed (leases.lua)
-- returns  token, deadline, seconds to wait, score of the best that is left, the requests (each >dH interval
--          and burst of its host, then LEASED), the leases that were taken back (>dc12 token and id), lanes that want a
--          chunk back (spilled.lua)
--
-- Best band first; in a band the lane that was served least recently. `el` is in that order already; lanes that
-- have cooled down join in. What is looked at is bounded by what can be handed out, however much waits.

local holder, call, limit, seconds, epoch = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local MORE = 8  -- lanes looked at beyond the limit: some of their hosts will have been served by then
local CHORES = 64  -- leases taken back and delays ended per call

notice(epoch)

local given, crawls, pools, position = {}, {}, {}, 1  -- crawls: those that are not paused
for at = 1, #ARGV[7], 4 do
  local crawl = struct.unpack('>I', ARGV[7], at)
  local terms = terms_of(crawl)
  if terms then
    given[#given + 1] = crawl
    if terms.paused == 0 then crawls[#crawls + 1] = crawl end
  end
end
while position <= #ARGV[8] do
  pools[#pools + 1], position = struct.unpack('>Bc0', ARGV[8], position)
end

land(ARGV[9])
local lost = reclaim(CHORES)
for _, crawl in ipairs(given) do promote(crawl, CHORES) end
if #touched + #lost > 0 or next(counted) then  -- mostly there was nothing to do
  save()
  save_batches()
end
local suspects_allowed = ARGV[6] == '1' and not redis.call('HGET', tag .. ':su', holder)

-- --- candidates ------------------------------------------------------------------------------------

local rosters = {}
for _, crawl in ipairs(crawls) do
  for _, pool in ipairs(pools) do
    rosters[#rosters + 1] = {crawl = crawl, pool = pool, suspect = false}
    rosters[#rosters + 1] = {crawl = crawl, pool = pool, suspect = true}
  end
end

local lines = {}  -- lanes that may be served, in several lists, each with the best first
local more = false  -- whether there may be others that nobody looked at

-- Give the list that has the best lane, and its score.
local function best_line()
  local best, score
  for i = 1, #lines do
    local line = lines[i]
    local head = line[line.at]
    if head and (not best or head.score < score) then best, score = line, head.score end
  end
  return best, score
end

-- A lane that stands in line although its host says that it is empty: a script was cut short. If something waits
-- there, it is served.
local function mended(name, one)
  local lane = lane_of(host_of(name), one.crawl, one.pool, one.suspect)
  local head = redis.call('ZRANGE', queue_of(lane), 0, 0)[1]
  if not head then return false end
  lane.band = band_of(head)
  stamp(lane)
  return lane.band * RANK + lane.stamp
end

local function score_of(name, one)
  local band, since = nil, nil
  if not one.suspect then band, since = peek_lane(name, one.crawl, one.pool) end
  if not band then
    local lane = find_lane(host_of(name), one.crawl, one.pool, one.suspect)
    if lane then band, since = lane.band, lane.stamp end
  end
  if not band or band == EMPTY then return mended(name, one) end
  return band * RANK + since
end

local function by_score(one, other)
  return one.score < other.score
end

-- Find the scores of lanes, which are listed by the names of their hosts, and put the best first.
local function candidates(names, one, set)
  local line, size, latest, sorted = {at = 1}, 0, -1, true
  for i = 1, #names do
    local name = names[i]
    local score = score_of(name, one)
    if score then
      size = size + 1
      line[size] = {score = score, name = name, roster = one, set = set}
      sorted, latest = sorted and latest <= score, score
    else
      push(removed, roster(one, set), name)
    end
  end
  if not sorted then table.sort(line, by_score) end
  return line
end

-- Look at the best lanes of each roster: those that are eligible, and those that have cooled down by now.
local function gather(wanted)
  local found, names = {}, {}
  local function read(one, set, listed)
    more = more or #listed == wanted
    if #listed == 0 then return end
    found[#found + 1] = {names = listed, one = one, set = set}
    for i = 1, #listed do names[#names + 1] = listed[i] end
  end
  for _, one in ipairs(rosters) do
    if suspects_allowed or not one.suspect then
      read(one, 'el', redis.call('ZRANGE', roster(one, 'el'), 0, wanted - 1))
      read(one, 'co', redis.call('ZRANGEBYSCORE', roster(one, 'co'), '-inf', now * TICKS, 'LIMIT', 0, wanted))
    end
  end
  peek_hosts(names)
  for _, list in ipairs(found) do
    lines[#lines + 1] = candidates(list.names, list.one, list.set)
  end
end

-- What has cooled down and was not served stands in `el` from now on. Its host's state stays as it is: see place.
local function move_cooled()
  for _, line in ipairs(lines) do
    for i = 1, #line do
      local candidate = line[i]
      local host = hosts[candidate.name]
      if candidate.set == 'co' and not (host and host.touched) then
        push(placed, roster(candidate.roster, 'el'), printed(candidate.score), candidate.name)
        push(removed, roster(candidate.roster, 'co'), candidate.name)
      end
    end
  end
end

local again = {at = 1}  -- lanes that were served and can be served again

-- Let a lane stand in line again, behind those of its band.
local function stand(candidate)
  local low, high = again.at, #again + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if again[middle].score <= candidate.score then low = middle + 1 else high = middle end
  end
  table.insert(again, low, candidate)
end

-- --- granting --------------------------------------------------------------------------------------

-- Give the member of a lane's queue at `index`.
local function waiting_at(lane, index)
  local read = lane.read
  if not read then
    -- One more than will be taken: the band of the next one is the lane's.
    local wanted = lane.host.interval > 0 and lane.host.burst == 1 and 2 or 8
    read = redis.call('ZRANGE', queue_of(lane), 0, wanted - 1)
    lane.read, lane.rest = read, #read == wanted
  elseif index > #read and lane.rest then
    local found = redis.call('ZRANGE', queue_of(lane), #read, #read + 15)
    for i = 1, #found do read[#read + 1] = found[i] end
    lane.rest = #found == 16
  end
  return read[index]
end

local leased_until = now + seconds
local granted_at = told(now)
local token = math.max(meta.token + 1, math.floor(now * 1e6))
local records, granted, numbers, suspect_granted = {}, {}, {}, false  -- numbers: how many, by crawl
local short = {}  -- lanes with chunks that were served
local out = {}  -- ids in this batch

-- What is handed out: the pace of its host, for whoever sends it, and the record of the lease.
local function granted_at_pace(host, record)
  granted[#granted + 1] = struct.pack('>dH', host.interval, host.burst) .. record
end

local function hand_out(lane, id, entry)
  local name, pool = lane.host.name, lane.pool
  local record = struct.pack(LEASED, leased_until, granted_at, 0, ordinal_of(entry), lane.crawl, #name, name,
    #pool, pool) .. entry
  records[#records + 1], records[#records + 2] = id, record
  granted_at_pace(lane.host, record)
  numbers[lane.crawl] = (numbers[lane.crawl] or 0) + 1
  take(lane.host, token)
  stamp(lane)
  if lane.spilled then short[lane] = true end
  if lane.suspect then suspects_allowed, suspect_granted = false, true end
end

local function grant(lane)
  local index = (lane.served or 0) + 1
  local entry = waiting_at(lane, index)
  lane.served = index
  push(removed, queue_of(lane), entry)
  local id = lease_id(lane.crawl, fingerprint_of(entry))
  if out[id] then  -- it waited twice, since a script was cut short
    count(lane.crawl, 'waiting', -1)
    touch(lane.host)
  else
    out[id] = true
    hand_out(lane, id, entry)
  end
  local following = waiting_at(lane, index + 1)
  lane.band = following and band_of(following) or EMPTY
end

local function serve()
  lines[#lines + 1] = again
  while #granted < limit do
    local line = best_line()
    if not line then break end
    local candidate = line[line.at]
    line.at = line.at + 1
    local one, host = candidate.roster, host_of(candidate.name)
    local lane = find_lane(host, one.crawl, one.pool, one.suspect)
    if not is_open(host) or host.ready > now then
      touch(host)  -- another lane took its turn, or it rests
    elseif not waiting_at(lane, (lane.served or 0) + 1) then
      lane.band = EMPTY  -- a script was cut short
      touch(host)
    elseif suspects_allowed or not lane.suspect then
      grant(lane)
      if lane.band ~= EMPTY and is_open(host) and host.ready <= now then
        candidate.score = lane.band * RANK + lane.stamp
        stand(candidate)
      end
    end
  end
  for crawl, number in pairs(numbers) do
    count(crawl, 'waiting', -number)
    count(crawl, 'leased', number)
  end
  local _, score = best_line()
  return score
end

-- Say when asking again can help.
local function wait_hint()
  if #granted == limit or more then return 0 end
  local first = math.huge
  local function consider(key, ticks)
    local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then first = math.min(first, tonumber(head[2]) / ticks) end
  end
  for _, one in ipairs(rosters) do
    if suspects_allowed or not one.suspect then consider(roster(one, 'co'), TICKS) end
  end
  for _, crawl in ipairs(crawls) do consider(tag .. ':dl:' .. crawl, 1) end
  consider(tag .. ':lx', 1)
  consider(tag .. ':rf', 1)
  return math.max(first - now, 0)
end

-- A call that is repeated because its answer was lost gets the same batch again.
local function repeated()
  local latest = redis.call('GET', tag .. ':ca:' .. holder)
  if not latest or string.sub(latest, 9) ~= call then return false end
  token = struct.unpack('>d', latest)
  for _, record in pairs(load_batch(token).records) do
    local host = host_of(unpack_leased(record).name)
    granted_at_pace(host, record)
    leased_until = deadline_of(record)
  end
  return true
end

local best = false
if not repeated() and limit > 0 then
  gather(limit + MORE)
  best = serve()
  move_cooled()
  if #granted > 0 then
    meta.token = token
    redis.call('HSET', KEYS[1], 'token', token)  -- first: no other batch may ever have the same
    local key, member = batch_key(token), string.format('%.0f', token)
    call_with('HSET', key, records)
    redis.call('HSET', key, '_', '0' .. holder)
    redis.call('ZADD', tag .. ':lx', leased_until, member)
    if suspect_granted then hold_suspect(holder, 1) end
    redis.call('SET', tag .. ':ca:' .. holder, struct.pack('>d', token) .. call,
      'PX', math.max(math.ceil(seconds * 1000), 1))
  end
  save()
  for lane in pairs(short) do want_chunk(lane) end
end
local wanted = wanted_chunks()
return {
  string.format('%.0f', token), exact(told(leased_until)), exact(wait_hint()), best and exact(best) or '',
  granted, lost, wanted,
}
