-- refill.lua: return the members of a chunk to their lane.
--
-- KEYS[1]  T:m
-- ARGV     crawl, pool, host, chunk id, its members
-- returns  how many were returned, and 1 if the next chunk is needed too. 0: another worker was faster.
--
-- Only the call that finds the chunk registered adds its members, and unregisters it: exactly once.

local crawl, pool, id = tonumber(ARGV[1]), ARGV[2], ARGV[4]
local lane = find_lane(host_of(ARGV[3]), crawl, pool, false)
if not lane or not call('ZSCORE', chunks_of(lane), id) then return {0, 0} end
for i = 5, #ARGV do enqueue(lane, ARGV[i]) end
save()

call('ZREM', chunks_of(lane), id)
call('HDEL', tag .. ':spb:' .. crawl, id)
if call('EXISTS', chunks_of(lane)) == 0 then
  lane[LANE_FLAGS] = with_flag(lane[LANE_FLAGS], SPILLED, false)
  mark_dirty(lane[OF_HOST])
  save()
end
local more = needs_chunk(lane)
if not more then call('ZREM', tag .. ':rf', lane_name(lane)) end
return {#ARGV - 4, more and 1 or 0}
