-- delete_rest.lua: sweep away what is left of a crawl that has no lanes any more, a slice at a time.
--
-- ARGV     crawl
-- returns  0 once there is nothing left

local crawl = tonumber(ARGV[1])
local pages = tag .. ':pg:' .. crawl
local found = call('HRANDFIELD', pages, 100, 'WITHVALUES')  -- HSCAN may find nothing although there is something
for i = 1, #found, 2 do withdraw(crawl, found[i], unpack_page(found[i + 1])) end
save_withdrawals()
if #found > 0 or seen_drop(tag, crawl, 64) > 0 then return 1 end
for _, name in ipairs({'n', 'b', 'hc', 'dl', 'pg', 'items', 'written', 'writer', 'allowance', 'd', 'dz', 'spb'}) do
  call('UNLINK', tag .. ':' .. name .. ':' .. crawl)
end
return 0
