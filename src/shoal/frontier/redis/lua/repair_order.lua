-- repair_order.lua: move new links that are out of the order of their list to the lane's returned requests.
--
-- KEYS[1]  T:m
-- ARGV     crawl, pool, host, band of the list, entries
-- returns  how many of them were there

local lane = find_lane(host_of(ARGV[3]), tonumber(ARGV[1]), ARGV[2], false)
if not lane then return 0 end
local key, moved = fresh_of(lane, tonumber(ARGV[4])), {}
for i = 5, #ARGV do
  if call('LPOS', key, ARGV[i]) then
    enqueue(lane, ARGV[i])
    moved[#moved + 1] = ARGV[i]
  end
end
save()
for _, entry in ipairs(moved) do call('LREM', key, 1, entry) end
return #moved
