-- lanes.lua: waiting requests, and the two packed forms that they have. ENTRY and RECORD of keys.py.
--
-- New links wait in lists, one per band, in the order in which they were accepted. A request that returns (a retry, a
-- released or replayed request, a refilled chunk) belongs in the middle of that order and waits in a sorted set beside
-- the lists; so do suspects.

local LOWEST_BAND = 15
local ENTRY = '>I6HBHBc8'
local RECORD = '>IBc0Bc0'
local CRASHES_AT, FP_FIRST, FP_LAST = 9, 13, 20  -- bytes of an ENTRY
local MAX_ATTEMPTS, MAX_CRASHES = 65535, 255

local function ordinal_of(entry)
  return (parse('>I6', entry))
end

local function is_suspect(entry)
  return byte(entry, CRASHES_AT) > 0
end

local function band_of(entry)
  local high, low, _, _, _, priority = byte(entry, 7, 12)
  local band = priority + high * 256 + low
  return band < LOWEST_BAND and band or LOWEST_BAND
end

local function unpack_entry(packed)
  local ordinal, attempts, crashes, rests, priority, fp, position = parse(ENTRY, packed)
  local first_at = nil
  if attempts + rests > 0 then first_at, position = parse('>d', packed, position) end
  return {
    attempts = attempts, crashes = crashes, rests = rests, priority = priority, fp = fp, ordinal = ordinal,
    first_at = first_at, request = sub(packed, position),
  }
end

local function pack_entry(entry)
  local head = pack(ENTRY, entry.ordinal, entry.attempts, entry.crashes, entry.rests, entry.priority, entry.fp)
  if entry.attempts + entry.rests > 0 then head = head .. pack('>d', entry.first_at) end
  return head .. entry.request
end

local function pack_record(crawl, host, pool, entry)
  return pack(RECORD, crawl, #host, host, #pool, pool) .. entry
end

-- Return crawl, host, pool and the packed entry.
local function unpack_record(record)
  local crawl, host, pool, position = parse(RECORD, record)
  return crawl, host, pool, sub(record, position)
end

-- Return the key of the list of new links of one band.
local function fresh_key(crawl, pool, band, host)
  local keys = lane_keys(crawl, pool)
  local prefix = keys.bands[band]
  if not prefix then
    prefix = keys.fresh .. band .. ':'
    keys.bands[band] = prefix
  end
  return prefix .. host
end

local function fresh_of(lane, band)
  return fresh_key(lane[CRAWL], lane[POOL], band, lane[OF_HOST][NAME])
end

-- Return the key of the sorted set of returned requests.
local function returned_of(lane)
  local keys = lane_keys(lane[CRAWL], lane[POOL])
  return (lane[LANE_FLAGS] % 2 == SUSPECT and keys.suspects or keys.returned) .. lane[OF_HOST][NAME]
end

local function find_lane(host, crawl, pool, suspect)
  local own, kind = host[LANES], suspect and SUSPECT or 0
  for i = 1, #own do
    local lane = own[i]
    if lane[CRAWL] == crawl and lane[POOL] == pool and lane[LANE_FLAGS] % 2 == kind then return lane end
  end
end

-- Return a lane, and create it if needed. The first request of a crawl on a host makes the crawl's pace apply there.
local function ensure_lane(host, crawl, pool, suspect)
  local lane = find_lane(host, crawl, pool, suspect)
  if not lane then
    lane = {host, false, false, false, 0, false, 0, false, 0, crawl, suspect and SUSPECT or 0, EMPTY, 0, 0, pool}
    table.insert(host[LANES], lane)
    apply_pace(host)
  end
  return lane
end

local function set_moment(lane, moment)
  lane[MOMENT], lane[CHANGED] = moment, true
  mark_dirty(lane[OF_HOST])
end

-- Record that a request of a band is waiting in a lane; a lane that was empty gets the moment.
local function note_waiting(lane, band, moment)
  if lane[BAND] == EMPTY then
    lane[BAND] = band
    set_moment(lane, moment or next_moment())
  elseif band < lane[BAND] then
    lane[BAND], lane[CHANGED] = band, true
    mark_dirty(lane[OF_HOST])
  end
end

-- Enqueue a returned request in its lane: one band lower for every attempt.
local function enqueue(lane, entry)
  local band = band_of(entry)
  push(zset_adds, returned_of(lane), format_int(band * RANK + ordinal_of(entry)), entry)
  local flags = with_flag(lane[LANE_FLAGS], RETURNED, true)
  if flags ~= lane[LANE_FLAGS] then
    lane[LANE_FLAGS] = flags
    mark_dirty(lane[OF_HOST])
  end
  note_waiting(lane, band)
end

-- Enqueue a new link.
local function enqueue_fresh(lane, band, entry, moment)
  push(list_pushes, fresh_of(lane, band), entry)
  if not has_flag(lane[FRESH], 2 ^ band) then
    lane[FRESH] = lane[FRESH] + 2 ^ band
    mark_dirty(lane[OF_HOST])
  end
  note_waiting(lane, band, moment)
end

-- Count the requests that are waiting in a lane, without its chunks.
local function length_of(lane)
  local number = has_flag(lane[LANE_FLAGS], RETURNED) and call('ZCARD', returned_of(lane)) or 0
  for band = 0, LOWEST_BAND do
    if has_flag(lane[FRESH], 2 ^ band) then number = number + call('LLEN', fresh_of(lane, band)) end
  end
  return number
end
