-- repair_hosts.lua: correct what hosts record of their lanes and of requests in flight, and schedule their lanes.
--
-- KEYS[1]  T:m
-- ARGV     name that froze the shard; for each host its name, how many of its requests are in flight, and lanes that
--          it may not have: >IBBc0 crawl, 1 if of suspects, s1 pool, repeated
-- returns  host, pool and fault (FAULTS of repair/fixes.py), alternating

local WIRE, UNKNOWN, HOLDS, LINE_UP, CHUNK = 'wire', 'unknown', 'holds', 'line', 'chunk'
local wrong = {}

local function report(host, pool, what)
  local size = #wrong
  wrong[size + 1], wrong[size + 2], wrong[size + 3] = host[NAME], pool, what
  mark_dirty(host)
end

-- Add a lane that its host does not have, if it has requests or is scheduled.
local function adopt_lane(host, crawl, suspect, pool)
  if find_lane(host, crawl, pool, suspect) or not options_of(crawl) then return end
  local lane = {host, false, false, false, 0, false, 0, false, 0, crawl, suspect and SUSPECT or 0, EMPTY, 0, 0, pool}
  if rescan_lane(lane) or call('ZSCORE', schedule_of(lane), host[NAME]) then
    ensure_lane(host, crawl, pool, suspect)
    if host[NEW] then  -- the time of its last request is unknown
      host[LAST] = now
      spend_burst(host)
      update_ready(host)
    end
    report(host, pool, UNKNOWN)
  end
end

local function repair_schedule(host, lane)
  local score, flags = call('ZSCORE', schedule_of(lane), host[NAME]), lane[LANE_FLAGS]
  local is_scheduled = score and true or false
  local wanted = is_open(host) and lane[BAND] ~= EMPTY
  local expected = lane[BAND] * SCHEDULE_BAND + due_step(host[SCHEDULED_READY], lane[MOMENT])
  if has_flag(flags, SCHEDULED) ~= is_scheduled or wanted ~= is_scheduled or wanted and tonumber(score) ~= expected then
    lane[LANE_FLAGS], lane[CHANGED] = with_flag(flags, SCHEDULED, is_scheduled), true
    report(host, lane[POOL], LINE_UP)
  end
end

-- Request a chunk for a lane that runs short, if it has no request yet.
local function request_missing_chunk(host, lane)
  if not has_flag(lane[LANE_FLAGS], SPILLED) or not needs_chunk(lane) then return end
  if call('ZADD', tag .. ':rf', 'NX', now, lane_name(lane)) == 1 then report(host, lane[POOL], CHUNK) end
end

local names = {}
for i = 2, #ARGV, 3 do names[#names + 1] = ARGV[i] end
prefetch_hosts(names)
for i = 2, #ARGV, 3 do
  local host, inflight, others, position = host_of(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2], 1
  if host[INFLIGHT] ~= inflight then
    host[INFLIGHT] = inflight
    report(host, '', WIRE)
  end
  while position <= #others do
    local crawl, suspect, pool
    crawl, suspect, pool, position = parse('>IBBc0', others, position)
    adopt_lane(host, crawl, suspect == 1, pool)
  end
  for _, lane in ipairs(host[LANES]) do
    if rescan_lane(lane) then
      lane[CHANGED] = true
      report(host, lane[POOL], HOLDS)
    end
    repair_schedule(host, lane)
    request_missing_chunk(host, lane)
  end
end
if #dirty_hosts > 0 then save() end
return wrong
