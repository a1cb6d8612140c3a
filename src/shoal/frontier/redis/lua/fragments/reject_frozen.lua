-- reject_frozen.lua: reject every call while a repair has frozen the shard. The client retries (FROZEN).

if meta.frozen > now then return redis.error_reply('FROZEN the shard is being repaired') end
