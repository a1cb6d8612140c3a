-- repair_chunk.lua: unregister a chunk whose members are waiting in their lane as well.
--
-- KEYS[1]  T:m
-- ARGV     crawl, pool, host, chunk id, its members
-- returns  1 if it was unregistered
--
-- A chunk is spilled and refilled as a whole. So if one of its members is waiting, either none has been removed yet, or
-- all of them are back; those that are missing have been leased since.

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
