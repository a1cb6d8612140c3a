-- refresh_hosts.lua: let hosts follow terms that have changed, a slice at a time.
--
-- ARGV     cursor ("0": from the beginning), how many to look at
-- returns  the next cursor ("0": that was all)
--
-- A host that is not reached, because whoever swept has died, follows when it is next looked at.

local cursor, found = unpack(call('HSCAN', tag .. ':h', ARGV[1], 'COUNT', ARGV[2]))
for i = 1, #found, 2 do unpack_host(found[i], found[i + 1]) end
save()
return cursor
