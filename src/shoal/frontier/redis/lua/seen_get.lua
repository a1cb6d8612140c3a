-- seen_get.lua: return whether a crawl has seen a fingerprint in this shard.
--
-- KEYS[1]  T:m
-- ARGV     crawl, fingerprint in decimal, its hash (seen.lua)
-- returns  1 or 0

return seen_has(seen_of(tag, tonumber(ARGV[1])), ARGV[2], tonumber(ARGV[3])) and 1 or 0
