-- purge.lua: delete dead letters; their requests stay dead and seen.
--
-- KEYS[1]  T:m
-- ARGV     crawl, one frame of >dc8 ordinal and fingerprint, repeated
-- returns  how many there were

local crawl, fps = tonumber(ARGV[1]), {}
local letters = tag .. ':d:' .. crawl
for position = 1, #ARGV[2], 16 do
  local member = sub(ARGV[2], position, position + 15)
  local fp = sub(member, 9)
  if call('HEXISTS', letters, fp) == 1 then
    push(zset_removals, tag .. ':dz:' .. crawl, member)
    fps[#fps + 1] = fp
  end
end
count(crawl, 'purged', #fps)
save_removals()
call_with('HDEL', letters, fps)
return #fps
