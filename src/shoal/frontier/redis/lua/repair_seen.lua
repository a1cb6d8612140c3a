-- repair_seen.lua: take in what waits, is out or has died, and was forgotten to have been seen.
--
-- ARGV     crawl; for each its fingerprint in decimal, and its hash (seen.lua)
-- returns  how many were taken in

local number, seen = 0, seen_of(tag, tonumber(ARGV[1]))
for i = 2, #ARGV, 2 do
  if seen_add(seen, ARGV[i], tonumber(ARGV[i + 1])) then number = number + 1 end
end
seen_save()
seen_grow()
return number
