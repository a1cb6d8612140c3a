-- clock.lua: the time of the server. The clocks of workers differ from one another.

local function read_clock()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1e6
end
