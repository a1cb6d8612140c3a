-- epoch.lua: detect that another server process has the shard.

-- A new process may have lost the last turns of hosts: each host rests for one interval.
local function check_epoch(epoch)
  local known = call('HGET', KEYS[1], 'epoch')
  if known == epoch then return end
  if known then
    meta.version = meta.version + 1
    meta.rested, meta.rested_version = now, meta.version
    call('HSET', KEYS[1], 'rested', now, 'version', meta.version, 'rested_version', meta.version)
  end
  call('HSET', KEYS[1], 'epoch', epoch)
end
