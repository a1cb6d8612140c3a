-- repair_seen.lua: add requests to the seen-set that are waiting, leased or dead, and missing there.
--
-- KEYS[1]  T:m
-- ARGV     crawl; for each its fingerprint in decimal, and its hash (seen.lua)
-- returns  how many were added

local number, seen = 0, seen_of(tag, tonumber(ARGV[1]))
for i = 2, #ARGV, 2 do
  if seen_add(seen, ARGV[i], tonumber(ARGV[i + 1])) then number = number + 1 end
end
seen_save()
seen_grow()
return number
