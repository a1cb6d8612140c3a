-- host_list.lua: show the hosts of a shard, in batches.
--
-- KEYS[1]  T:m
-- ARGV     cursor ("0": from the start), number of hosts to look at, landed requests (leases.lua)
-- returns  the next cursor ("0": finished), views (views.lua) of the hosts that have a lane

mark_landed(ARGV[3])
save()
local cursor, found = unpack(call('HSCAN', tag .. ':h', ARGV[1], 'COUNT', ARGV[2]))
local views = {}
for i = 1, #found, 2 do
  local host = hosts[found[i]] or unpack_host(found[i], found[i + 1])
  if #host[LANES] > 0 then views[#views + 1] = view_of(host) end
end
return {cursor, views}
