-- spilled.lua: lanes whose tail lies outside the server, and when a chunk of it is wanted back.
--
-- A lane with chunks hands out what it has. Before that runs out, or gets worse than the best chunk, the lane is
-- put into T:rf, and stays there until the chunk is back: a worker that was asked for it and died is followed by
-- another, also when the lane is empty by then and no lease would come across it.

-- Requests better than the best chunk: so many leases can be granted while a worker gets the chunk.
local WANTED_BELOW = 1000
local ASKED_AGAIN = 5.0  -- seconds until another worker is asked
local ASKED_AT_ONCE = 4  -- lanes per call

local function chunks_of(lane)
  return tag .. ':sp:' .. lane.crawl .. ':' .. lane.pool .. ':' .. lane.host.name
end

local function wanted_name(lane)
  return struct.pack('>IBc0', lane.crawl, #lane.pool, lane.pool) .. lane.host.name
end

-- Count the requests of a lane that are in chunks: each says in its name how many.
local function spilled_from(lane)
  local number = 0
  for _, id in ipairs(redis.call('ZRANGE', chunks_of(lane), 0, -1)) do
    number = number + tonumber(string.match(id, '^%d+'))
  end
  return number
end

-- Say whether the best chunk of a lane should be fetched.
local function wants_chunk(lane)
  local best = redis.call('ZRANGE', chunks_of(lane), 0, 0, 'WITHSCORES')[2]
  return best and redis.call('ZCOUNT', queue_of(lane), '-inf', '(' .. best) < WANTED_BELOW
end

-- Note that a lane runs short; for every lane with chunks that was served.
local function want_chunk(lane)
  if wants_chunk(lane) then redis.call('ZADD', tag .. ':rf', 'NX', now, wanted_name(lane)) end
end

-- Name lanes whose best chunk the caller is asked to bring back.
local function wanted_chunks()
  local names = redis.call('ZRANGEBYSCORE', tag .. ':rf', '-inf', now, 'LIMIT', 0, ASKED_AT_ONCE)
  for _, name in ipairs(names) do redis.call('ZADD', tag .. ':rf', now + ASKED_AGAIN, name) end
  return names
end
