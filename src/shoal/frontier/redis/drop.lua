-- drop.lua: take a crawl's lanes off its hosts, a slice at a time.
--
-- ARGV     crawl, cursor ("0": from the beginning), how many hosts to look at
-- returns  the next cursor ("0": that was all)
--
-- Without its terms a crawl takes part in nothing any more: what is still to be swept away can wait.

local crawl = tonumber(ARGV[1])
if redis.call('HDEL', tag .. ':c', crawl) == 1 then
  meta.version = meta.version + 1  -- its pace has no say any more
  redis.call('HSET', KEYS[1], 'version', meta.version)
end
local cursor, found = unpack(redis.call('HSCAN', tag .. ':h', ARGV[2], 'COUNT', ARGV[3]))
for i = 1, #found, 2 do
  local host = unpack_host(found[i], found[i + 1])
  for _, lane in ipairs(host.strays or {}) do
    if lane.crawl == crawl then
      redis.call('UNLINK', queue_of(lane), roster(lane, 'el'), roster(lane, 'co'), chunks_of(lane))
      redis.call('ZREM', tag .. ':rf', wanted_name(lane))
      touch(host)
    end
  end
end
save()
return cursor
