-- views.lua: a host as it is now.

-- Name, interval, burst, concurrency, inflight, next turn, Crawl-delay, rest until, slow factor, paused, failures;
-- and for each of its lanes the crawl and how many wait there.
local function view_of(host)
  local _, _, _, crawl_delay = overrides_of(host)
  local rest_until = host.rest_until > 0 and told(host.rest_until) or 0
  local waiting = {}
  for _, lane in ipairs(host.lanes) do
    local number = redis.call('ZCARD', queue_of(lane))
    if lane.spilled then number = number + spilled_from(lane) end
    waiting[#waiting + 1], waiting[#waiting + 2] = lane.crawl, number
  end
  return {
    host.name, exact(host.interval), host.burst, host.concurrency, host.inflight, exact(told(host.ready)),
    exact(crawl_delay), exact(rest_until), exact(host.slow), host.paused and 1 or 0, host.failures, waiting,
  }
end
