-- reject_frozen.lua: nothing changes in a shard while somebody recounts it (`repair`). Whoever comes meanwhile asks again.

if meta.frozen > now then return redis.error_reply('FROZEN the shard is being recounted') end
