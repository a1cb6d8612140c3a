-- repair_pages.lua: announce pages again that have no stream entry.
--
-- KEYS[1]  T:m
-- ARGV     name that froze the shard; crawl; fingerprints
-- returns  how many there were

local crawl = tonumber(ARGV[2])
for i = 3, #ARGV do
  local page = unpack_page(call('HGET', tag .. ':pg:' .. crawl, ARGV[i]))
  local _, _, _, entry = unpack_record(page.record)
  announce(crawl, unpack_entry(entry), page.record, page.page, page.holder)
end
return #ARGV - 2
