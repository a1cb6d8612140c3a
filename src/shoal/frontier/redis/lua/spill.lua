-- spill.lua: remove the tail of a lane from the server, after it was stored elsewhere as a chunk.
--
-- KEYS[1]  T:m
-- ARGV     crawl, pool, host, chunk id (`<number of members>-<anything>`), locator or body, best score, band of the
--          list that it is the end of ("": of the returned requests), members
-- returns  how many were removed; 0: one of them is gone, or they are due soon. Nothing has changed then.
--
-- Repeated after a lost reply, it returns the same.

local crawl, pool, id, best, band = tonumber(ARGV[1]), ARGV[2], ARGV[4], ARGV[6], tonumber(ARGV[7])
local lane = find_lane(host_of(ARGV[3]), crawl, pool, false)
if not lane then return 0 end
local members = {}
for i = 8, #ARGV do members[i - 7] = ARGV[i] end
if call('ZSCORE', chunks_of(lane), id) then return #members end
if count_before(lane, best) < REFILL_BELOW then return 0 end

-- Some always stay, so that the lane never becomes empty here.
local function are_there()
  local source = band and call('LLEN', fresh_of(lane, band)) or call('ZCARD', returned_of(lane))
  if source <= #members then return false end
  if band then
    local tail = call('LRANGE', fresh_of(lane, band), -#members, -1)
    for i = 1, #members do
      if tail[i] ~= members[i] then return false end
    end
  else
    for first = 1, #members, 2000 do
      local some = call('ZMSCORE', returned_of(lane), unpack(members, first, math.min(first + 1999, #members)))
      for _, score in ipairs(some) do
        if not score then return false end
      end
    end
  end
  return true
end

if not are_there() then return 0 end
call('HSET', tag .. ':spb:' .. crawl, id, ARGV[5])
call('ZADD', chunks_of(lane), best, id)
lane[LANE_FLAGS] = with_flag(lane[LANE_FLAGS], SPILLED, true)
mark_dirty(lane[OF_HOST])
if band then
  save()
  call('RPOP', fresh_of(lane, band), #members)
else
  for _, member in ipairs(members) do push(zset_removals, returned_of(lane), member) end
  save()
end
return #members
