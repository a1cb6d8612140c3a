-- require_frozen.lua: for scripts that repair a shard: only the caller that froze it may, while it stays frozen.
--
-- ARGV[1]  name of the caller
-- returns  nil from the script if the shard is not frozen by it any more

local FROZEN_S = 10  -- a repair that is alive renews it much sooner
if meta.frozen <= now or call('HGET', KEYS[1], 'freezer') ~= ARGV[1] then return false end
call('HSET', KEYS[1], 'frozen', now + FROZEN_S)
