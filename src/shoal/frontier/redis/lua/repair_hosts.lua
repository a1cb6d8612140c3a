-- repair_hosts.lua: set right what hosts say of their lanes and of requests on the wire, and where lanes stand in line.
--
-- ARGV     who has frozen the shard; for each host its name, how many of its requests are on the wire, and lanes that
--          it may not know of: >IBBc0 crawl, 1 if of suspects, s1 pool, repeated
-- returns  host, pool and what was wrong, by turns (repair/hosts.py)

local WIRE, UNKNOWN, HOLDS, LINE_UP, CHUNK = 'wire', 'unknown', 'holds', 'line', 'chunk'
local wrong = {}

local function note(host, pool, what)
  local size = #wrong
  wrong[size + 1], wrong[size + 2], wrong[size + 3] = host[NAME], pool, what
  touch(host)
end

-- Take a lane in that its host does not know of, if there is anything to it.
local function find_out(host, crawl, suspect, pool)
  if find_lane(host, crawl, pool, suspect) or not terms_of(crawl) then return end
  local lane = {host, false, false, false, 0, false, 0, false, 0, crawl, suspect and SUSPECT or 0, EMPTY, 0, 0, pool}
  if look_into(lane) or call('ZSCORE', line_of(lane), host[NAME]) then
    lane_of(host, crawl, pool, suspect)
    if host[NEW] then  -- nobody knows when it was last asked
      host[LAST] = now
      spend(host)
      aim(host)
    end
    note(host, pool, UNKNOWN)
  end
end

local function mend_line(host, lane)
  local score, flags = call('ZSCORE', line_of(lane), host[NAME]), lane[LANE_FLAGS]
  local stands = score and true or false
  local wanted = is_open(host) and lane[BAND] ~= EMPTY
  local place_of_its_own = lane[BAND] * LINE + due(host[SHOWN], lane[MOMENT])
  if has_flag(flags, IN_LINE) ~= stands or wanted ~= stands or wanted and tonumber(score) ~= place_of_its_own then
    lane[LANE_FLAGS], lane[CHANGED] = with_flag(flags, IN_LINE, stands), true
    note(host, lane[POOL], LINE_UP)
  end
end

-- A lane that runs short of what is not in chunks has to ask for one, or nobody will.
local function mend_chunks(host, lane)
  if not has_flag(lane[LANE_FLAGS], SPILLED) or not wants_chunk(lane) then return end
  if call('ZADD', tag .. ':rf', 'NX', now, wanted_name(lane)) == 1 then note(host, lane[POOL], CHUNK) end
end

local names = {}
for i = 2, #ARGV, 3 do names[#names + 1] = ARGV[i] end
peek_hosts(names)
for i = 2, #ARGV, 3 do
  local host, inflight, others, position = host_of(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2], 1
  if host[INFLIGHT] ~= inflight then
    host[INFLIGHT] = inflight
    note(host, '', WIRE)
  end
  while position <= #others do
    local crawl, suspect, pool
    crawl, suspect, pool, position = parse('>IBBc0', others, position)
    find_out(host, crawl, suspect == 1, pool)
  end
  for _, lane in ipairs(host[OWN_LANES]) do
    if look_into(lane) then
      lane[CHANGED] = true
      note(host, lane[POOL], HOLDS)
    end
    mend_line(host, lane)
    mend_chunks(host, lane)
  end
end
if #touched > 0 then save() end
return wrong
