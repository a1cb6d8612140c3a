-- host_get.lua: show one host.
--
-- KEYS[1]  T:m
-- ARGV     host, landed requests (leases.lua)
-- returns  its view (views.lua); nil if the host is unknown, or was deleted as idle (idle_hosts.lua)

mark_landed(ARGV[2])
save()
local host = host_of(ARGV[1])
return not host[NEW] and view_of(host)
