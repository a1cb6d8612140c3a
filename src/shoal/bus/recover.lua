-- Give a consumer the page that another one has been silent about for longest, if for too long.
-- ARGV: group, consumer, ms, ms of silence after which a consumer that has no page is forgotten. Answers id, fields
-- and number of the delivery, or nothing.

local tag = string.sub(KEYS[1], 1, -3)
local pages = tag .. PAGES_KEY

-- A consumer that was killed leaves its name. One that has pages keeps it: they have to be claimed first. A name that
-- is in use after all comes back by itself, with the next page.
local function drop_dead_consumers()
  local forgotten = 0
  for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', pages, ARGV[1])) do
    local about = {}
    for at = 1, #fields, 2 do about[fields[at]] = fields[at + 1] end
    if about.pending == 0 and about.idle > tonumber(ARGV[4]) and forgotten < 100 then
      redis.call('XGROUP', 'DELCONSUMER', pages, ARGV[1], about.name)
      forgotten = forgotten + 1
    end
  end
end

local claimed = redis.call('XAUTOCLAIM', pages, ARGV[1], ARGV[2], ARGV[3], '0', 'COUNT', 1)[2]
if #claimed == 0 then
  -- All consumers come by, and there may be thousands: one of them goes through the others' names.
  if redis.call('SET', tag .. CONSUMER_GC_KEY, 1, 'NX', 'PX', ARGV[3]) then drop_dead_consumers() end
  return false
end
local id, fields = unpack(claimed[1])
return {id, fields, redis.call('XPENDING', pages, ARGV[1], id, id, 1)[1][4]}
