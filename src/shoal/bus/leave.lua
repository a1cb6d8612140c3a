-- Delete a consumer that has no pending page in this shard. Deleting it with pages would lose their owner.
local pages = string.sub(KEYS[1], 1, -3) .. PAGES_KEY
local pending = redis.pcall('XPENDING', pages, ARGV[1], '-', '+', 1, ARGV[2])
if pending.err or #pending > 0 then  -- an error: a server that has lost its data has no such group
  return 0
end
return redis.call('XGROUP', 'DELCONSUMER', pages, ARGV[1], ARGV[2])
