-- host_get.lua: show one host.
--
-- ARGV     host, what has landed (leases.lua)
-- returns  its view (views.lua); nothing if nobody has heard of it, or for long (forgetting.lua)

mark_landed(ARGV[2])
save()
local host = host_of(ARGV[1])
return not host[NEW] and view_of(host)
