-- Delete a consumer that has no pending page in this shard. Deleting it with pages would lose their owner.
local pages = string.sub(KEYS[1], 1, -3) .. PAGES_KEY
if #redis.call('XPENDING', pages, ARGV[1], '-', '+', 1, ARGV[2]) > 0 then
  return 0
end
return redis.call('XGROUP', 'DELCONSUMER', pages, ARGV[1], ARGV[2])
