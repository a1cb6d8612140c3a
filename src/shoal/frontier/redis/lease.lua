-- lease.lua: hand out requests whose host is due.
--
-- ARGV     holder, call, limit, seconds, epoch of the server process, 1 if the holder may have a suspect,
--          crawls (>I each), pools (s1 each), what has landed (leases.lua)
-- returns  token, deadline, seconds to wait, score of the best that is left, the requests (>dH interval and burst
--          of the host, then LEASED), the leases that were taken back (>dc12 token and id)
--
-- Best band first; in a band the lane that was served least recently. `el` is in that order already; lanes that
-- have cooled down join in. What is looked at is bounded by what can be handed out, however much waits.

local holder, call, limit, seconds, epoch = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local MORE = 32  -- lanes looked at beyond the limit: some of their hosts will have been served by then
local CHORES = 64  -- leases taken back and delays ended per call

-- Another server process may have lost the last turns that hosts took: each of them rests for an interval.
local known = redis.call('HGET', KEYS[1], 'epoch')
if known ~= epoch then
  if known then
    meta.rested = now
    redis.call('HSET', KEYS[1], 'rested', now)
  end
  redis.call('HSET', KEYS[1], 'epoch', epoch)
end

local crawls, pools, position = {}, {}, 1
for at = 1, #ARGV[7], 4 do
  local crawl = struct.unpack('>I', ARGV[7], at)
  local terms = terms_of(crawl)
  if terms and terms.paused == 0 then crawls[#crawls + 1] = crawl end
end
while position <= #ARGV[8] do
  pools[#pools + 1], position = struct.unpack('>Bc0', ARGV[8], position)
end

land(ARGV[9])
local lost = reclaim(CHORES)
for _, crawl in ipairs(crawls) do promote(crawl, CHORES) end
save()
save_batches()
local suspects_allowed = ARGV[6] == '1' and not redis.call('HGET', tag .. ':su', holder)

-- --- candidates ------------------------------------------------------------------------------------

local rosters = {}
for _, crawl in ipairs(crawls) do
  for _, pool in ipairs(pools) do
    rosters[#rosters + 1] = {crawl = crawl, pool = pool, suspect = false}
    rosters[#rosters + 1] = {crawl = crawl, pool = pool, suspect = true}
  end
end

local queue = {}  -- candidates, best first
local more = false  -- whether there may be others that nobody looked at

local function gather(wanted)
  local cooled, names = {}, {}
  for _, one in ipairs(rosters) do
    if suspects_allowed or not one.suspect then
      local eligible = redis.call('ZRANGE', roster(one, 'el'), 0, wanted - 1, 'WITHSCORES')
      for i = 1, #eligible, 2 do
        queue[#queue + 1] = {score = tonumber(eligible[i + 1]), name = eligible[i], roster = one}
      end
      local due = redis.call('ZRANGEBYSCORE', roster(one, 'co'), '-inf', now, 'LIMIT', 0, wanted)
      for _, name in ipairs(due) do
        names[#names + 1] = name
        cooled[#cooled + 1] = {name = name, roster = one}
      end
      more = more or #eligible == 2 * wanted or #due == wanted
    end
  end
  load_hosts(names)
  for _, candidate in ipairs(cooled) do
    local host = hosts[candidate.name]
    touch(host)  -- moves to `el`, unless it is served
    local lane = find_lane(host, candidate.roster.crawl, candidate.roster.pool, candidate.roster.suspect)
    if lane then
      candidate.score = lane.band * RANK + lane.stamp
      queue[#queue + 1] = candidate
    end
  end
  table.sort(queue, function(one, other) return one.score < other.score end)
  names = {}
  for i = 1, math.min(limit, #queue) do names[i] = queue[i].name end
  load_hosts(names)
end

-- Let a lane stand in line again, behind those of its band.
local function stand(candidate, first)
  local low, high = first, #queue + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if queue[middle].score <= candidate.score then low = middle + 1 else high = middle end
  end
  table.insert(queue, low, candidate)
end

-- --- granting --------------------------------------------------------------------------------------

-- Give the member of a lane's queue at `index` and its score.
local function waiting_at(lane, index)
  local read = lane.read or {}
  if index * 2 > #read and (not lane.read or lane.rest) then
    -- One more than will be taken: the band of the next one is the lane's.
    local wanted = lane.read and 16 or (lane.host.interval > 0 and lane.host.burst == 1 and 2 or 8)
    local from = #read / 2
    local found = redis.call('ZRANGE', queue_of(lane), from, from + wanted - 1, 'WITHSCORES')
    for _, value in ipairs(found) do read[#read + 1] = value end
    lane.read, lane.rest = read, #found == 2 * wanted
  end
  return read[index * 2 - 1], tonumber(read[index * 2])
end

local leased_until = now + seconds
local granted_at = told(now)
local token = math.max(meta.token + 1, math.floor(now * 1e6))
local records, granted, suspect_granted = {}, {}, false
local short = {}  -- lanes with chunks that were served

local function grant(lane)
  local index = (lane.served or 0) + 1
  local entry, score = waiting_at(lane, index)
  lane.served = index
  local record = struct.pack(LEASED, leased_until, granted_at, 0) .. pack_record(score % RANK, lane, entry)
  records[#records + 1], records[#records + 2] = lease_id(lane.crawl, fingerprint_of(entry)), record
  granted[#granted + 1] = struct.pack('>dH', lane.host.interval, lane.host.burst) .. record
  push(removed, queue_of(lane), entry)
  count(lane.crawl, 'waiting', -1)
  count(lane.crawl, 'leased', 1)
  take(lane.host, token)
  stamp(lane)
  if lane.spilled then short[lane] = true end
  local _, following = waiting_at(lane, index + 1)
  lane.band = following and math.floor(following / RANK) or EMPTY
  if lane.suspect then suspects_allowed, suspect_granted = false, true end
end

local function serve()
  local first = 1
  while #granted < limit and queue[first] do
    local candidate = queue[first]
    local one = candidate.roster
    first = first + 1
    local host = host_of(candidate.name)
    local lane = find_lane(host, one.crawl, one.pool, one.suspect)
    if not lane or lane.band == EMPTY then
      push(removed, roster(one, 'el'), candidate.name)  -- left there by a script that was cut short
    elseif not is_open(host) or host.ready > now then
      touch(host)  -- another lane took its turn, or it rests
    elseif not waiting_at(lane, (lane.served or 0) + 1) then
      lane.band = EMPTY  -- as above
      touch(host)
    elseif suspects_allowed or not one.suspect then
      grant(lane)
      if lane.band ~= EMPTY and is_open(host) and host.ready <= now then
        candidate.score = lane.band * RANK + lane.stamp
        stand(candidate, first)
      end
    end
  end
  return queue[first] and queue[first].score
end

-- Say when asking again can help.
local function wait_hint()
  if #granted == limit or more then return 0 end
  local first = math.huge
  local function consider(key)
    local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then first = math.min(first, tonumber(head[2])) end
  end
  for _, one in ipairs(rosters) do
    if suspects_allowed or not one.suspect then consider(roster(one, 'co')) end
  end
  for _, crawl in ipairs(crawls) do consider(tag .. ':dl:' .. crawl) end
  consider(tag .. ':lx')
  consider(tag .. ':rf')
  return math.max(first - now, 0)
end

-- A call that is repeated because its answer was lost gets the same batch again.
local function repeated()
  local latest = redis.call('GET', tag .. ':ca:' .. holder)
  if not latest or string.sub(latest, 9) ~= call then return false end
  token = struct.unpack('>d', latest)
  for _, record in pairs(load_batch(token).records) do
    local _, _, name = unpack_record(string.sub(record, LEASED_SIZE + 1))
    local host = host_of(name)
    granted[#granted + 1] = struct.pack('>dH', host.interval, host.burst) .. record
    leased_until = deadline_of(record)
  end
  return true
end

local best = false
if not repeated() and limit > 0 then
  gather(limit + MORE)
  best = serve()
  if #granted > 0 then
    meta.token = token
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
