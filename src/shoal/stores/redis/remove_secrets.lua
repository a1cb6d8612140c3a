-- Replace the record of a crawl by one without secrets, unless it has been submitted again.
--
-- KEYS[1]  the fleet's own key, which names the shard
-- ARGV     key of the records, key of their signatures, name of the crawl, its record as it was read, the new record,
--          its signature (empty: none)
-- returns  1, or 0 if the record is another one by now

if redis.call('HGET', ARGV[1], ARGV[3]) ~= ARGV[4] then return 0 end
redis.call('HSET', ARGV[1], ARGV[3], ARGV[5])
if ARGV[6] == '' then
  redis.call('HDEL', ARGV[2], ARGV[3])
else
  redis.call('HSET', ARGV[2], ARGV[3], ARGV[6])
end
return 1
