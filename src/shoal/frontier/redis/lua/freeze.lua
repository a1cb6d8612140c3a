-- freeze.lua: keep everybody else out of a shard, or let them in again.
--
-- ARGV     who asks, for how many seconds (0: no longer)
-- returns  1; 0 if somebody else is at it

local whose = call('HGET', KEYS[1], 'freezer')
if meta.frozen > now and whose ~= ARGV[1] then return 0 end
if tonumber(ARGV[2]) > 0 then
  call('HSET', KEYS[1], 'freezer', ARGV[1], 'frozen', now + ARGV[2], 'latest', now)
elseif whose == ARGV[1] then
  call('HDEL', KEYS[1], 'freezer', 'frozen')
end
return 1
