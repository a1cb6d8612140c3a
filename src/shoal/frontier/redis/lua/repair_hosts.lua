-- repair_hosts.lua: set right what hosts say of their lanes and of requests on the wire, and where lanes stand in line.
--
-- ARGV     who has frozen the shard; for each host its name, how many of its requests are on the wire, and lanes that
--          it may not know of: >IBBc0 crawl, 1 if of suspects, s1 pool, repeated
-- returns  host, pool and what was wrong, by turns (repair/hosts.py)

local WIRE, UNKNOWN, HOLDS, LINE_UP, CHUNK = 'wire', 'unknown', 'holds', 'line', 'chunk'
local wrong = {}

local function report(host, pool, what)
  local size = #wrong
  wrong[size + 1], wrong[size + 2], wrong[size + 3] = host[NAME], pool, what
  mark_dirty(host)
end

-- Take a lane in that its host does not know of, if there is anything to it.
local function adopt_lane(host, crawl, suspect, pool)
  if find_lane(host, crawl, pool, suspect) or not options_of(crawl) then return end
  local lane = {host, false, false, false, 0, false, 0, false, 0, crawl, suspect and SUSPECT or 0, EMPTY, 0, 0, pool}
  if rescan_lane(lane) or call('ZSCORE', schedule_of(lane), host[NAME]) then
    ensure_lane(host, crawl, pool, suspect)
    if host[NEW] then  -- nobody knows when it was last asked
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

-- A lane that runs short of what is not in chunks has to ask for one, or nobody will.
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
