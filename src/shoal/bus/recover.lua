-- Move the oldest expired delivery of the shard to a consumer.
-- ARGV: group, consumer, deadline in ms, ms after which an inactive consumer without pages is deleted. Returns id,
-- fields and number of the delivery, or nothing.

local tag = string.sub(KEYS[1], 1, -3)
local pages = tag .. PAGES_KEY

-- A consumer that was killed leaves its name. One with pending pages stays: they have to be claimed first. If a deleted
-- consumer is alive after all, Redis creates it again with its next page.
local function drop_dead_consumers()
  local dropped = 0
  for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', pages, ARGV[1])) do
    local about = {}
    for at = 1, #fields, 2 do about[fields[at]] = fields[at + 1] end
    if about.pending == 0 and about.idle > tonumber(ARGV[4]) and dropped < 100 then
      redis.call('XGROUP', 'DELCONSUMER', pages, ARGV[1], about.name)
      dropped = dropped + 1
    end
  end
end

local claimed = redis.call('XAUTOCLAIM', pages, ARGV[1], ARGV[2], ARGV[3], '0', 'COUNT', 1)[2]
if #claimed == 0 then
  -- There may be thousands of consumers: only one of them checks the names in each deadline.
  if redis.call('SET', tag .. CONSUMER_GC_KEY, 1, 'NX', 'PX', ARGV[3]) then drop_dead_consumers() end
  return false
end
local id, fields = unpack(claimed[1])
return {id, fields, redis.call('XPENDING', pages, ARGV[1], id, id, 1)[1][4]}
