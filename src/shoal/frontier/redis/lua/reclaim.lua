-- reclaim.lua: take back leases whose deadline has passed; note what has landed.
--
-- ARGV     what has landed (leases.lua)
-- returns  the leases that were taken back (>dc12 token and id), at most a few batches; none: there are
--          no more

mark_landed(ARGV[1])
local lost = reclaim(64)
save()
save_batches()
return lost
