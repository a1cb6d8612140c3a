-- host_set.lua: set a host's pace, rest or pause; what is not passed stays unchanged. A new interval and the end of a
-- pause also end an adaptive slow-down.
--
-- KEYS[1]  T:m
-- ARGV     host, interval, burst, concurrency, Crawl-delay, rest until, paused (each "": unchanged), landed requests
--          (leases.lua)
-- returns  the view of the host (views.lua)

local name = ARGV[1]
mark_landed(ARGV[8])
local host = host_of(name)
local interval, burst, concurrency, crawl_delay = overrides_of(host)
local given = {}
for i = 2, 7 do given[i] = tonumber(ARGV[i]) end
if given[2] or given[3] or given[4] or given[5] then
  local packed = pack('>dhhd', given[2] or interval, given[3] or burst, given[4] or concurrency,
    given[5] or crawl_delay)
  call('HSET', tag .. ':ho', name, packed)
  host[FLAGS] = with_flag(host[FLAGS], HAS_OVERRIDES, true)
end
if given[6] then host[REST_UNTIL] = given[6] + meta.offset end
if given[7] then host[FLAGS] = with_flag(host[FLAGS], PAUSED, given[7] == 1) end
if given[6] or given[7] then  -- for requests that take no turn (pauses.lua)
  local until_instant = is_paused(host) and '+inf' or host[REST_UNTIL]
  if until_instant == '+inf' or until_instant > now then
    call('ZADD', tag .. ':hp', until_instant, name)
  else
    call('ZREM', tag .. ':hp', name)
  end
end
if given[2] or given[7] == 0 then clear_slowdown(host) end
apply_pace(host)
save()
return view_of(host)
