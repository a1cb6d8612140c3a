-- counts.lua: count the requests of a crawl by state.
--
-- KEYS[1]  T:m
-- ARGV     crawl
-- returns  its counters, name and value alternating; how many delays have ended and still count as delayed; size,
--          bits and hashes of its seen-set (seen.lua), and how many requests a repair found to be lost

local crawl = tonumber(ARGV[1])
if options_of(crawl) then
  promote_delayed(crawl, 64)
  save()
end
return {
  call('HGETALL', tag .. ':n:' .. crawl),
  call('ZCOUNT', tag .. ':dl:' .. crawl, '-inf', now),
  call('HMGET', tag .. ':sm:' .. crawl, 'size', 'bits', 'hashes', 'lost'),
}
