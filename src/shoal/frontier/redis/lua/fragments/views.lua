-- views.lua: a host as `host_get` shows it.

-- Return name, interval, burst, concurrency, inflight, next turn, Crawl-delay, rest until, slow factor, paused,
-- failures, signals of the latest responses; and for each of its lanes the crawl and how many requests are waiting.
local function view_of(host)
  local _, _, _, crawl_delay = overrides_of(host)
  local rest_until = host[REST_UNTIL] > 0 and server_time(host[REST_UNTIL]) or 0
  local waiting = {}
  for _, lane in ipairs(host[LANES]) do
    waiting[#waiting + 1], waiting[#waiting + 2] = lane[CRAWL], length_of(lane) + count_spilled(lane)
  end
  return {
    host[NAME], format_double(host[INTERVAL]), host[BURST], host[CONCURRENCY], host[INFLIGHT],
    format_double(server_time(host[READY])), format_double(crawl_delay), format_double(rest_until),
    format_double(host[SLOW]), host[FLAGS] % 2, host[FAILURES],
    responses_of(host), waiting,
  }
end
