-- repair_counts.lua: write down what a recount has found.
--
-- ARGV     who has frozen the shard; crawl; size of its seen-set ("": as it is); counters and their values, by turns
-- returns  1

if ARGV[3] ~= '' then call('HSET', tag .. ':sm:' .. ARGV[2], 'size', ARGV[3]) end
local values = {unpack(ARGV, 4)}
call_with('HSET', tag .. ':n:' .. ARGV[2], values)
return 1
