#!lua flags=allow-oom
-- Give a consumer the page that another one has been silent about for longest, if for too long.
-- ARGV: group, consumer, ms. Answers id, fields and number of the delivery, or nothing.

local pages = string.sub(KEYS[1], 1, -3) .. ':pages'
local claimed = redis.call('XAUTOCLAIM', pages, ARGV[1], ARGV[2], ARGV[3], '0', 'COUNT', 1)[2]
if #claimed == 0 then
  return false
end
local id, fields = unpack(claimed[1])
return {id, fields, redis.call('XPENDING', pages, ARGV[1], id, id, 1)[1][4]}
