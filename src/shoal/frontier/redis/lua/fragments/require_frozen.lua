-- require_frozen.lua: for scripts that put a shard right: only who has frozen it may, and for as long as it stays frozen.
--
-- ARGV[1]  who that is
-- returns  nothing where it is not so any more

local FROZEN_S = 10  -- seconds; whoever recounts comes again much sooner, or has died
if meta.frozen <= now or call('HGET', KEYS[1], 'freezer') ~= ARGV[1] then return false end
call('HSET', KEYS[1], 'frozen', now + FROZEN_S)
