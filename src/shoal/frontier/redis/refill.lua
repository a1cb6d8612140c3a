-- refill.lua: put the members of a chunk back into their lane.
--
-- ARGV     crawl, pool, host, chunk id, then score and member by turns
-- returns  how many came back, and 1 if the next chunk is wanted too. 0: somebody else was faster.
--
-- Only the call that finds the chunk registered adds its members, and strikes it off: exactly once.

local crawl, pool, id = tonumber(ARGV[1]), ARGV[2], ARGV[4]
local lane = find_lane(host_of(ARGV[3]), crawl, pool, false)
if not lane or not redis.call('ZSCORE', chunks_of(lane), id) then return {0, 0} end
for i = 5, #ARGV, 2 do
  local score = tonumber(ARGV[i])
  local band = math.floor(score / RANK)
  wait(lane, score - band * RANK, ARGV[i + 1])
end
save()

redis.call('ZREM', chunks_of(lane), id)
redis.call('HDEL', tag .. ':spb:' .. crawl, id)
if redis.call('EXISTS', chunks_of(lane)) == 0 then
  lane.spilled = false
  touch(lane.host)
  save()
end
local more = lane.spilled and wants_chunk(lane)
if not more then redis.call('ZREM', tag .. ':rf', wanted_name(lane)) end
return {(#ARGV - 4) / 2, more and 1 or 0}
