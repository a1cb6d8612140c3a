-- address_hosts.lua: record that a host has an address, and count the hosts that have had it lately.
--
-- KEYS[1]  T:m
-- ARGV     address, host
-- returns  number of hosts

local RECENT_S = 600
local key = tag .. ':ad:' .. ARGV[1]
call('ZADD', key, now, ARGV[2])
call('ZREMRANGEBYSCORE', key, '-inf', now - RECENT_S)
call('PEXPIRE', key, RECENT_S * 1000)
return call('ZCARD', key)
