-- repair_chunk.lua: strike a chunk off whose members wait in their lane as well.
--
-- ARGV     crawl, pool, host, chunk id, its members
-- returns  1 if it was
--
-- A chunk is spilled and brought back as a whole. So where one of its members waits, either all of them have yet to be
-- removed, or all of them are back; those that are missing have been leased since.

local crawl, id = tonumber(ARGV[1]), ARGV[4]
local lane = find_lane(host_of(ARGV[3]), crawl, ARGV[2], false)
if not lane or not call('ZSCORE', chunks_of(lane), id) then return 0 end

local waiting, there = {}, false
for band = 0, LOWEST_BAND do
  for _, entry in ipairs(call('LRANGE', fresh_of(lane, band), 0, -1)) do waiting[entry] = true end
end
for i = 5, #ARGV do
  there = there or waiting[ARGV[i]] or call('ZSCORE', returned_of(lane), ARGV[i])
end
if not there then return 0 end
call('ZREM', chunks_of(lane), id)
call('HDEL', tag .. ':spb:' .. crawl, id)
return 1
