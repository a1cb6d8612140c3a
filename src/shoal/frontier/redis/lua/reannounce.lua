-- reannounce.lua: announce pages again whose stream entry is gone, in batches.
--
-- KEYS[1]  T:m
-- ARGV     crawl, cursor ("0": from the start)
-- returns  the next cursor ("0": finished), how many were announced again
--
-- Where another bus delivers pages, their entries leave the stream once that bus has them. If it loses them, T:pg is
-- all that is left.

local crawl, again = tonumber(ARGV[1]), 0
local found = call('HSCAN', tag .. ':pg:' .. crawl, ARGV[2], 'COUNT', 100)
if not options_of(crawl) then return {'0', 0} end
for i = 1, #found[2], 2 do
  local page = unpack_page(found[2][i + 1])
  if #call('XRANGE', tag .. PAGES_KEY, page.id, page.id) == 0 then
    local _, _, _, entry = unpack_record(page.record)
    add_page(crawl, unpack_entry(entry), page.record, page.page, page.holder)
    again = again + 1
  end
end
return {found[1], again}
