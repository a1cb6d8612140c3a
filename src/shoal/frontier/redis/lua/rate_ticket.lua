-- rate_ticket.lua: let requests to hosts leave, now.
--
-- ARGV     epoch of the server process; for each request its host, seconds that have to lie between two requests at
--          least, seconds that this one may take to leave
-- returns  for each the seconds to wait; 0: the turn is taken
--
-- A lease takes a turn so that no more is handed out than may leave. When a request leaves is up to its worker:
-- it may have another one to send first, such as for robots.txt, or be late. So a request takes its turn here as
-- it leaves, in place of the one that the latest lease has taken and nobody has used.

check_epoch(ARGV[1])

local function take_ticket(host, interval, leeway)
  local tat, its_interval = host[TAT], host[INTERVAL]
  if host[TOKEN] > 0 then tat = tat - its_interval end  -- the lease's own
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
