-- seen_get.lua: say whether a crawl has seen a fingerprint in this shard.
--
-- ARGV     crawl, fingerprint in decimal
-- returns  1 or 0

return seen_has(tag, tonumber(ARGV[1]), ARGV[2]) and 1 or 0
