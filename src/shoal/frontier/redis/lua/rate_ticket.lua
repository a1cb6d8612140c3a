-- rate_ticket.lua: take the rate-limit turn of hosts for requests that are ready to be sent.
--
-- KEYS[1]  T:m
-- ARGV     epoch of the server process, name of the taker; then for each request its host, its crawl (0: none), the
--          minimum interval in seconds after it, the margin that is added to it, its leeway, how far ahead a turn may
--          be granted, and the receipt of a turn that was not used ("": none)
-- returns  for each request three values: `granted`, `wait` or `paused`; the seconds until the turn is due, or after
--          which to ask again; the receipt of the turn
--
-- A lease takes a turn, so that no more is granted than may leave. When a request really leaves is up to its worker:
-- the worker may have to fetch robots.txt first, or be late. So a request takes its turn here when it is ready, in
-- place of the turn of a lease that is pending.
--
-- A turn is a slot in time. Its taker sends the request between the slot and `leeway` seconds after it, and leaves the
-- interval between its own requests by its own clock. So another taker's next slot is an interval plus the leeway after
-- this one, and the taker's own next slot an interval plus the margin. TAT is what holds for other takers; T:ht:HOST
-- says who may have its next turn how much earlier. It is written only if the leeway is longer than the margin: the
-- taker is far from this server, or busy.
--
-- An address that several hosts have takes turns like a host; its name starts with `@`.

local REQUEST_FIELDS, ADDRESS_MARK = 7, 64  -- `@`
local taker = ARGV[2]

check_epoch(ARGV[1])

local function take_ticket(host, first)
  local crawl, interval, margin = tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
  local leeway, ahead, returned = tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5]), tonumber(ARGV[first + 6])
  local options = crawl > 0 and options_of(crawl)
  if is_paused(host) or options and options.paused == 1 then return 'paused', '0', '' end
  if byte(host[NAME]) == ADDRESS_MARK then host[INTERVAL] = interval end  -- an address has no configured pace
  local its_interval, burst, pending = host[INTERVAL], host[BURST], pending_leases(host)
  local period = math.max(interval, its_interval) + margin
  local for_others = due_for_others(host)
  local tat = for_others - head_start(host, taker)
  if returned and math.abs(returned - for_others) < SAME_S then
    tat = tat - period  -- the latest turn was the taker's, and was not used
  end
  -- No turn is granted ahead of the end of a rest: a request that may leave early would leave within it.
  if host[REST_UNTIL] > now then return 'wait', format_double(host[REST_UNTIL] - now), '' end
  local ready = tat - (burst - 1) * its_interval
  if ready > now + ahead then return 'wait', format_double(ready - now), '' end
  local slot = math.max(ready, now)
  tat = math.max(tat, slot) + period
  local late = math.max(leeway - margin, 0)
  if burst > 1 and head_start(host, taker) > 0 then  -- an earlier request of the burst may be late as well
    late = math.max(late, for_others + period - tat)
  end
  set_head_start(host, taker, late, tat + late)
  pending = math.max(pending - 1, 0)
  host[TAT] = tat + late + pending * its_interval
  -- Until when the request may leave: after a change of pace, the next slot of any taker counts from here.
  host[LAST], host[TOKEN] = slot + late + margin, 0
  set_pending_leases(host, pending)
  update_ready(host)
  mark_dirty(host)
  meta.sent_by = math.max(meta.sent_by, slot + leeway)
  return 'granted', format_double(slot - now), format_double(tat + late)
end

local names, answers = {}, {}
for i = 3, #ARGV, REQUEST_FIELDS do names[#names + 1] = ARGV[i] end
prefetch_hosts(names)
for i, name in ipairs(names) do
  local kind, wait, receipt = take_ticket(host_of(name), 3 + (i - 1) * REQUEST_FIELDS)
  answers[3 * i - 2], answers[3 * i - 1], answers[3 * i] = kind, wait, receipt
end
if #dirty_hosts > 0 then save() end
return answers
