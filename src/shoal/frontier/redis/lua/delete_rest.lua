-- delete_rest.lua: delete what is left of a crawl that has no lanes any more, in batches.
--
-- KEYS[1]  T:m
-- ARGV     crawl
-- returns  0 once nothing is left

local crawl = tonumber(ARGV[1])
local pages = tag .. ':pg:' .. crawl
local found = call('HRANDFIELD', pages, 100, 'WITHVALUES')  -- HSCAN may return nothing although fields exist
for i = 1, #found, 2 do remove_page(crawl, found[i], unpack_page(found[i + 1])) end
save_page_removals()
if #found > 0 or seen_drop(tag, crawl, 64) > 0 then return 1 end
for _, key in ipairs({
  ':n:', ':tot:', ':b:', ':hc:', ':dl:', ':pg:', ITEMS_KEY, WRITTEN_KEY, WRITER_KEY, PAGE_QUOTA_KEY, SITE_BUDGET_KEY,
  QUARANTINE_KEY, ':d:', ':rd:', ':hd:',
  ':dz:', ':spb:',
}) do
  call('UNLINK', tag .. key .. crawl)
end
return 0
