-- robots_get.lua: recall a robots.txt.
--
-- ARGV     origin
-- returns  when it expires, its status, its text; nothing if it is not known any more

local kept = call('GET', tag .. ':r:' .. ARGV[1])
if not kept then return false end
local expires, status, position = parse('>dI', kept)
if expires <= server_time(now) then return false end
return {format_double(expires), status, sub(kept, position)}
