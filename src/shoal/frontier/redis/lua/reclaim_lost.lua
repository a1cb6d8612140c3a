-- reclaim_lost.lua: reclaim the leases of holders that are gone, before their deadline.
--
-- KEYS[1]  T:m
-- ARGV     names of holders that are gone
-- returns  how many leases were reclaimed, and the holders of all other leases (of the first batches to expire)

local MAX_BATCHES, MAX_LOST = 1000, 200
local gone, others, lost = {}, {}, 0
for i = 1, #ARGV do gone[ARGV[i]] = true end
for _, member in ipairs(call('ZRANGE', tag .. ':lx', 0, MAX_BATCHES - 1)) do
  local token = tonumber(member)
  local batch = batch_of(token)
  read_head(batch, call('HGET', batch.key, '_'))
  if not gone[batch.holder] then
    others[batch.holder] = true
  elseif lost < MAX_LOST then
    load_batch(token)
    local leases = {}
    for id, record in pairs(batch.records) do
      local lease = unpack_leased(batch, id, record)
      leases[#leases + 1] = {lease = lease, ordinal = ordinal_of(entry_in(lease))}
    end
    table.sort(leases, function(one, other) return one.ordinal < other.ordinal end)
    for _, one in ipairs(leases) do charge_crash(one.lease) end
    lost = lost + #leases
  end
end
save()
save_batches()
local holders = {}
for holder in pairs(others) do holders[#holders + 1] = holder end
return {lost, holders}
