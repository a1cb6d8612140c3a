-- rate_ticket.lua: take the rate-limit turn of hosts for requests that leave now.
--
-- KEYS[1]  T:m
-- ARGV     epoch of the server process; for each request its host, the minimum interval in seconds after it, seconds
--          that it may take to leave
-- returns  for each the seconds to wait; 0: the turn is taken
--
-- A lease takes a turn, so that no more is granted than may leave. When a request really leaves is up to its worker:
-- the worker may have to fetch robots.txt first, or be late. So a request takes its turn here as it leaves, in place
-- of the turn that the latest lease has taken and not used.

check_epoch(ARGV[1])

local function take_ticket(host, interval, leeway)
  local tat, its_interval = host[TAT], host[INTERVAL]
  if host[TOKEN] > 0 then tat = tat - its_interval end  -- the turn that the latest lease has taken
  local ready = math.max(tat - (host[BURST] - 1) * its_interval, host[REST_UNTIL])
  if ready > now then return format_double(ready - now) end
  host[TAT] = math.max(tat, now) + math.max(interval, its_interval) + leeway
  host[LAST], host[TOKEN] = now, 0
  update_ready(host)
  mark_dirty(host)
  return '0'
end

local names, answers = {}, {}
for i = 2, #ARGV, 3 do names[#names + 1] = ARGV[i] end
prefetch_hosts(names)
for i, name in ipairs(names) do
  answers[i] = take_ticket(host_of(name), tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]))
end
if #dirty_hosts > 0 then save() end
return answers
