-- host_list.lua: show hosts, a slice at a time.
--
-- ARGV     cursor ("0": from the beginning), how many to look at, what has landed (leases.lua)
-- returns  the next cursor ("0": that was all), views (views.lua) of the hosts that have a lane

mark_landed(ARGV[3])
save()
local cursor, found = unpack(call('HSCAN', tag .. ':h', ARGV[1], 'COUNT', ARGV[2]))
local views = {}
for i = 1, #found, 2 do
  local host = hosts[found[i]] or unpack_host(found[i], found[i + 1])
  if #host[LANES] > 0 then views[#views + 1] = view_of(host) end
end
return {cursor, views}
