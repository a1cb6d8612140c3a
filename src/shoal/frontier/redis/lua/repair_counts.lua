-- repair_counts.lua: write the result of a recount.
--
-- KEYS[1]  T:m
-- ARGV     name that froze the shard; crawl; size of its seen-set ("": unchanged); lost requests, forgotten requests;
--          counters and values alternating
-- returns  1

if ARGV[3] ~= '' then call('HSET', tag .. ':sm:' .. ARGV[2], 'size', ARGV[3]) end
for i, field in ipairs({'lost', 'forgotten'}) do
  if tonumber(ARGV[3 + i]) > 0 then
    call('HSET', tag .. ':sm:' .. ARGV[2], field, ARGV[3 + i])
  else
    call('HDEL', tag .. ':sm:' .. ARGV[2], field)
  end
end
local values = {}
for i = 6, #ARGV do values[i - 5] = ARGV[i] end
call_with('HSET', tag .. ':n:' .. ARGV[2], values)
return 1
