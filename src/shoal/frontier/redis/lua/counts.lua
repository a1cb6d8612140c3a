-- counts.lua: how many requests of a crawl are in each state.
--
-- ARGV     crawl
-- returns  its counters, one after the other; how many delays have ended and still count as delayed; size, bits
--          and hashes of its seen-set (seen.lua)

local crawl = tonumber(ARGV[1])
if options_of(crawl) then
  promote_delayed(crawl, 64)
  save()
end
return {
  call('HGETALL', tag .. ':n:' .. crawl),
  call('ZCOUNT', tag .. ':dl:' .. crawl, '-inf', now),
  call('HMGET', tag .. ':sm:' .. crawl, 'size', 'bits', 'hashes'),
}
