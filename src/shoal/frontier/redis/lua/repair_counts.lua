-- repair_counts.lua: write the result of a recount.
--
-- KEYS[1]  T:m
-- ARGV     name that froze the shard; crawl; size of its seen-set ("": unchanged); counters and values alternating
-- returns  1

if ARGV[3] ~= '' then call('HSET', tag .. ':sm:' .. ARGV[2], 'size', ARGV[3]) end
local values = {}
for i = 4, #ARGV do values[i - 3] = ARGV[i] end
call_with('HSET', tag .. ':n:' .. ARGV[2], values)
return 1
