-- refresh_hosts.lua: apply changed crawl options to hosts, in batches.
--
-- KEYS[1]  T:m
-- ARGV     cursor ("0": from the start), number of hosts to look at
-- returns  the next cursor ("0": finished)
--
-- A host that is not reached, because the caller died, is updated when it is next read.

local cursor, found = unpack(call('HSCAN', tag .. ':h', ARGV[1], 'COUNT', ARGV[2]))
for i = 1, #found, 2 do unpack_host(found[i], found[i + 1]) end
save()
return cursor
