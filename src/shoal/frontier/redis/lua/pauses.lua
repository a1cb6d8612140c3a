-- pauses.lua: return what may not be sent now, for requests that take no turn because their host has no rate limit.
--
-- KEYS[1]  T:m
-- ARGV     crawl (0: none)
-- returns  1 if the crawl is paused or was deleted, else 0; seconds until every turn that was granted is over; the hosts
--          that are paused or rest because the operator has said so

local crawl = tonumber(ARGV[1])
local options = crawl > 0 and options_of(crawl)
local paused = crawl > 0 and (not options or options.paused == 1)
call('ZREMRANGEBYSCORE', tag .. ':hp', '-inf', now)
local answer = {paused and 1 or 0, format_double(math.max(meta.sent_by - now, 0))}
for _, name in ipairs(call('ZRANGE', tag .. ':hp', 0, -1)) do answer[#answer + 1] = name end
return answer
