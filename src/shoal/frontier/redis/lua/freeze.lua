-- freeze.lua: freeze a shard, so that only the caller may change it, or release it.
--
-- KEYS[1]  T:m
-- ARGV     name of the caller, seconds (0: release)
-- returns  1; 0 if another caller has frozen it

local whose = call('HGET', KEYS[1], 'freezer')
if meta.frozen > now and whose ~= ARGV[1] then return 0 end
if tonumber(ARGV[2]) > 0 then
  call('HSET', KEYS[1], 'freezer', ARGV[1], 'frozen', now + ARGV[2], 'latest', now)
elseif whose == ARGV[1] then
  call('HDEL', KEYS[1], 'freezer', 'frozen')
end
return 1
