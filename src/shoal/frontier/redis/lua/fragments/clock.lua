-- clock.lua: what time it is, by the server. The workers' clocks disagree with one another.

local function read_clock()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1e6
end
