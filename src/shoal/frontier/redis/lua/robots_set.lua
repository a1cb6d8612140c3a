-- robots_set.lua: store a robots.txt until it expires.
--
-- KEYS[1]  T:m
-- ARGV     origin, when it expires, its status, its text
-- returns  nil

local expires = tonumber(ARGV[2])
local seconds = expires - server_time(now)
if seconds > 0 then
  call('SET', tag .. ':r:' .. ARGV[1], pack('>dI', expires, tonumber(ARGV[3])) .. ARGV[4],
    'PX', math.ceil(seconds * 1000))
else
  call('DEL', tag .. ':r:' .. ARGV[1])
end
