-- spilled.lua: lanes whose tail is stored outside the server, and requests to bring a chunk of it back.
--
-- A lane with chunks serves the requests that it has. Before they run out, or are worse than the best chunk, the lane
-- is added to T:rf, and stays there until the chunk is back: if the worker that was asked for it dies, another one is
-- asked, also when the lane is empty by then and no lease reads it.

-- Requests that are better than the best chunk: that many leases can be granted while a worker fetches the chunk.
local REFILL_BELOW = 1000
local REQUEST_AGAIN_S = 5.0  -- then another worker is asked
local REQUESTS_PER_CALL = 4  -- lanes

local function chunks_of(lane)
  return tag .. ':sp:' .. lane[CRAWL] .. ':' .. lane[POOL] .. ':' .. lane[OF_HOST][NAME]
end

local function lane_name(lane)
  return pack('>IBc0', lane[CRAWL], #lane[POOL], lane[POOL]) .. lane[OF_HOST][NAME]
end

-- Count the requests of a lane that are in chunks: the id of a chunk starts with its size.
local function count_spilled(lane)
  local number = 0
  if not has_flag(lane[LANE_FLAGS], SPILLED) then return number end
  for _, id in ipairs(call('ZRANGE', chunks_of(lane), 0, -1)) do
    number = number + tonumber(string.match(id, '^%d+'))
  end
  return number
end

-- Count the new links of a band that were accepted before an ordinal: lists are in that order.
local function count_fresh_before(lane, band, ordinal)
  local key = fresh_of(lane, band)
  local low, high = 0, call('LLEN', key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if ordinal_of(call('LINDEX', key, middle)) < ordinal then low = middle + 1 else high = middle end
  end
  return low
end

-- Count the requests in the server that are served before a score.
local function count_before(lane, score)
  local number, its_band = call('ZCOUNT', returned_of(lane), '-inf', '(' .. score), math.floor(score / RANK)
  for band = 0, its_band do
    local ordinal = band < its_band and math.huge or score - its_band * RANK
    if has_flag(lane[FRESH], 2 ^ band) then number = number + count_fresh_before(lane, band, ordinal) end
  end
  return number
end

-- Return whether the best chunk of a lane should be fetched; `leaving`: requests that are about to leave the lane.
local function needs_chunk(lane, leaving)
  local best = call('ZRANGE', chunks_of(lane), 0, 0, 'WITHSCORES')[2]
  return best and count_before(lane, best) - (leaving or 0) < REFILL_BELOW
end

-- Request a chunk if the lane runs short; for every served lane that has chunks.
local function request_chunk(lane, leaving)
  if needs_chunk(lane, leaving) then call('ZADD', tag .. ':rf', 'NX', now, lane_name(lane)) end
end

-- Return the names of lanes whose best chunk the caller is asked to bring back.
local function due_chunk_requests()
  local names = {}
  for _, name in ipairs(call('ZRANGEBYSCORE', tag .. ':rf', '-inf', now, 'LIMIT', 0, REQUESTS_PER_CALL)) do
    local crawl, pool, position = parse('>IBc0', name)
    if call('EXISTS', tag .. ':sp:' .. crawl .. ':' .. pool .. ':' .. sub(name, position)) == 1 then
      call('ZADD', tag .. ':rf', now + REQUEST_AGAIN_S, name)
      names[#names + 1] = name
    else  -- it is back, but a script was aborted before it removed the request
      call('ZREM', tag .. ':rf', name)
    end
  end
  return names
end
