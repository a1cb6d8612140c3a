-- turn.lua: let one request to a host leave, now.
--
-- ARGV     host, seconds that have to lie between two requests at least, seconds that this one may take to leave,
--          epoch of the server process
-- returns  seconds to wait; 0: the turn is taken
--
-- A lease takes a turn so that no more is handed out than may leave. When a request leaves is up to its worker:
-- it may have another one to send first, such as for robots.txt, or be late. So a request takes its turn here as
-- it leaves, in place of the one that the latest lease has taken and nobody has used.

local interval, leeway = tonumber(ARGV[2]), tonumber(ARGV[3])
notice(ARGV[4])
local host = host_of(ARGV[1])
if host[TOKEN] > 0 then give_back(host, host[TOKEN], host[INTERVAL]) end
if host[READY] > now then return exact(host[READY] - now) end
host[TAT] = math.max(host[TAT], now) + math.max(interval, host[INTERVAL]) + leeway
host[LAST], host[TOKEN] = now, 0
aim(host)
touch(host)
save()
return '0'
