-- lanes.lua: requests that wait, and the two packed forms in which they do. ENTRY and RECORD of keys.py.

local LOWEST_BAND = 15
local RECORD = '>dIBc0Bc0'
local MOST_ATTEMPTS, MOST_CRASHES = 65535, 255

local function fingerprint_of(entry)
  return string.sub(entry, 7, 14)
end

-- Where its ordinal is: a score would have to be printed and read again, which costs more than the rest.
local ENTRY = '>HBHBc8I6'
local ORDINAL_AT = 15

local function ordinal_of(entry)
  return (struct.unpack('>I6', entry, ORDINAL_AT))
end

local function is_suspect(entry)
  return string.byte(entry, 3) > 0  -- its crashes
end

local function unpack_entry(packed)
  local attempts, crashes, rests, priority, fp, ordinal, position = struct.unpack(ENTRY, packed)
  local first_at = nil
  if attempts + rests > 0 then first_at, position = struct.unpack('>d', packed, position) end
  return {
    attempts = attempts, crashes = crashes, rests = rests, priority = priority, fp = fp, ordinal = ordinal,
    first_at = first_at, request = string.sub(packed, position),
  }
end

local function pack_entry(entry)
  local head = struct.pack(ENTRY, entry.attempts, entry.crashes, entry.rests, entry.priority, entry.fp,
    entry.ordinal)
  if entry.attempts + entry.rests > 0 then head = head .. struct.pack('>d', entry.first_at) end
  return head .. entry.request
end

local function pack_record(ordinal, crawl, host, pool, entry)
  return struct.pack(RECORD, ordinal, crawl, #host, host, #pool, pool) .. entry
end

-- Give ordinal, crawl, host, pool and entry; the entry is still packed.
local function unpack_record(record)
  local ordinal, crawl, host, pool, position = struct.unpack(RECORD, record)
  return ordinal, crawl, host, pool, string.sub(record, position)
end

local function queue_of(lane)
  if not lane.queue then
    local kind = lane.suspect and ':x:' or ':q:'
    lane.queue = tag .. kind .. lane.crawl .. ':' .. lane.pool .. ':' .. lane.host.name
  end
  return lane.queue
end

local function find_lane(host, crawl, pool, suspect)
  local lanes = host.lanes
  for i = 1, #lanes do
    local lane = lanes[i]
    if lane.crawl == crawl and lane.pool == pool and lane.suspect == suspect then return lane end
  end
end

-- The first request of a crawl on a host makes the crawl's pace count there.
local function lane_of(host, crawl, pool, suspect)
  local lane = find_lane(host, crawl, pool, suspect)
  if not lane then
    lane = {
      host = host, crawl = crawl, pool = pool, suspect = suspect, band = EMPTY, stamp = 0, place = false,
    }
    host.lanes[#host.lanes + 1] = lane
    follow(host)
  end
  return lane
end

local function stamp(lane)
  meta.stamp = meta.stamp + 1
  lane.stamp, lane.changed = meta.stamp, true
  touch(lane.host)
end

local function band_of(entry)
  local high, low, _, _, _, priority = string.byte(entry, 1, 6)
  local band = priority + high * 256 + low
  return band < LOWEST_BAND and band or LOWEST_BAND
end

-- Let a request wait in its lane: one class lower for every attempt it has cost.
local function wait(lane, ordinal, entry)
  local band = band_of(entry)
  push(added, queue_of(lane), printed(band * RANK + ordinal), entry)
  if lane.band == EMPTY then
    lane.band = band
    stamp(lane)
  elseif band < lane.band then
    lane.band, lane.changed = band, true
    touch(lane.host)
  end
end
