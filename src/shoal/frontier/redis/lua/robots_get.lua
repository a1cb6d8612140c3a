-- robots_get.lua: return a stored robots.txt.
--
-- KEYS[1]  T:m
-- ARGV     origin
-- returns  when it expires, its status, its text; nil if none is stored or it has expired

local kept = call('GET', tag .. ':r:' .. ARGV[1])
if not kept then return false end
local expires, status, position = parse('>dI', kept)
if expires <= server_time(now) then return false end
return {format_double(expires), status, sub(kept, position)}
