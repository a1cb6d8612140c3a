-- Replace a record about levels, unless another process has changed it.
--
-- KEYS[1]  the fleet's own key, which names the shard
-- ARGV     key of the records, key of their changes, field, the record as it was read, the new one (empty: none), most
--          records
-- returns  1, or 0 if the record is another one by now
--
-- A deleted record keeps its place among the changes, so that other processes notice.

local records, changes, field, before, after, most = unpack(ARGV)
local found = redis.call('HGET', records, field) or ''
if found ~= before then return 0 end
if before == '' and after == '' then return 1 end
if after == '' then
  redis.call('HDEL', records, field)
else
  redis.call('HSET', records, field, after)
end
local last = redis.call('ZREVRANGE', changes, 0, 0, 'WITHSCORES')
redis.call('ZADD', changes, (tonumber(last[2]) or 0) + 1, field)
local extra = redis.call('ZCARD', changes) - tonumber(most)
if extra > 0 then
  for _, oldest in ipairs(redis.call('ZRANGE', changes, 0, extra - 1)) do
    redis.call('HDEL', records, oldest)
    redis.call('ZREM', changes, oldest)
  end
end
return 1
