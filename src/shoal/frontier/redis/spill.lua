-- spill.lua: take the tail of a lane out of the server, after it was written elsewhere as a chunk.
--
-- ARGV     crawl, pool, host, chunk id (`<number of members>-<anything>`), locator or body, best score, members
-- returns  how many went; 0: one of them is no longer there, or few would be left. Nothing has changed then.
--
-- Asked again after a lost reply it says the same.

local crawl, pool, id, best = tonumber(ARGV[1]), ARGV[2], ARGV[4], ARGV[6]
local lane = find_lane(host_of(ARGV[3]), crawl, pool, false)
if not lane then return 0 end
local queue, members = queue_of(lane), {unpack(ARGV, 7)}
if redis.call('ZSCORE', chunks_of(lane), id) then return #members end
if redis.call('ZCARD', queue) < #members + WANTED_BELOW then return 0 end
for _, score in ipairs(redis.call('ZMSCORE', queue, unpack(members))) do
  if not score then return 0 end
end

redis.call('HSET', tag .. ':spb:' .. crawl, id, ARGV[5])
redis.call('ZADD', chunks_of(lane), best, id)
lane.spilled = true
touch(lane.host)
for _, member in ipairs(members) do push(removed, queue, member) end
save()
return #members
