-- delete_lanes.lua: delete a crawl's lanes from its hosts, in batches.
--
-- KEYS[1]  T:m
-- ARGV     crawl, cursor ("0": from the start), number of hosts to look at
-- returns  the next cursor ("0": finished)
--
-- Without its options a crawl takes part in nothing any more, so the rest of it can be deleted later.

local crawl = tonumber(ARGV[1])
if call('HDEL', tag .. CRAWL_OPTIONS_KEY, crawl) == 1 then
  meta.version = meta.version + 1  -- hosts recompute their pace without it
  call('HSET', KEYS[1], 'version', meta.version)
end
local cursor, found = unpack(call('HSCAN', tag .. ':h', ARGV[2], 'COUNT', ARGV[3]))
for i = 1, #found, 2 do
  local host = unpack_host(found[i], found[i + 1])
  for _, lane in ipairs(host[ORPHANS] or {}) do
    if lane[CRAWL] == crawl then
      call('UNLINK', returned_of(lane), schedule_of(lane), chunks_of(lane))
      for band = 0, LOWEST_BAND do call('UNLINK', fresh_of(lane, band)) end
      call('ZREM', tag .. ':rf', lane_name(lane))
      mark_dirty(host)
    end
  end
end
save()
local names, left = {}, {}
for i = 1, #found, 2 do names[#names + 1] = found[i] end
for first = 1, #names, 2000 do  -- HSCAN may return more than it was asked for
  for i, packed in ipairs(call('HMGET', tag .. ':h', unpack(names, first, math.min(first + 1999, #names)))) do
    if packed then left[#left + 1], left[#left + 2] = names[first + i - 1], packed end
  end
end
if #left > 0 then delete_idle(left) end
return cursor
