-- reclaim.lua: reclaim leases whose deadline has passed; mark landed requests.
--
-- KEYS[1]  T:m
-- ARGV     landed requests (leases.lua)
-- returns  the leases that were reclaimed (>dc12 token and id), of a few batches at most; none: no more are expired

mark_landed(ARGV[1])
local lost = reclaim(64)
save()
save_batches()
return lost
