-- Forget a consumer that has no page of this shard; with its pages its claim to them would be forgotten, too.
local pages = string.sub(KEYS[1], 1, -3) .. PAGES_KEY
if #redis.call('XPENDING', pages, ARGV[1], '-', '+', 1, ARGV[2]) > 0 then
  return 0
end
return redis.call('XGROUP', 'DELCONSUMER', pages, ARGV[1], ARGV[2])
