-- acknowledge.lua: end pages that were settled as fetched, each with the items of its page.
--
-- KEYS[1]  T:m
-- ARGV     one frame: >H number, each >I crawl, 8 bytes fingerprint, s1 consumer ("": any consumer), >B outcome
--          (1 done, 5 dead); if dead >H status, s1 class, >H reason, >I page (empty: unchanged); >I items, >H tally,
--          >H history (pages.lua)
-- returns  a `1` for each that was accepted, a `0` for each that is not being parsed, or not by this consumer
--
-- A page is acknowledged once: the second acknowledgement finds it gone. A consumer whose page was redelivered to
-- another because it took too long is rejected, even if the other has not finished yet.

local DEAD = 5
local frame, position, number = ARGV[1], 1

local function is_pending_for(id, consumer)
  if consumer == '' then return true end
  local pending = redis.pcall('XPENDING', tag .. PAGES_KEY, PARSE_GROUP, id, id, 1)
  return pending[1] ~= nil and pending[1][2] == consumer
end

local ended = {}  -- by this call

local function acknowledge(crawl, fp, consumer, letter, items, tally, history)
  local packed = options_of(crawl) and call('HGET', tag .. ':pg:' .. crawl, fp)
  local page = packed and unpack_page(packed)
  if not page or ended[crawl .. fp] or not is_pending_for(page.id, consumer) then return '0' end
  ended[crawl .. fp] = true
  if letter then
    local _, _, _, entry = unpack_record(page.record)
    if letter.page == '' then letter.page = page.page end
    letter.holder = page.holder
    add_dead_letter(crawl, unpack_entry(entry), page.record, letter)
  else
    count(crawl, 'done', 1)
  end
  if items ~= '' then append_items(crawl, fp, items) end
  if tally ~= '' then add_totals(crawl, tally) end
  if history ~= '' then add_history(crawl, fp, history) end
  remove_page(crawl, fp, page)
  return '1'
end

call('XLEN', tag .. PAGES_KEY)  -- written last: if it has the wrong type, fail before anything is written
local accepted = {}
number, position = parse('>H', frame, position)
for i = 1, number do
  local crawl, fp, consumer, outcome, letter, items, tally, history
  crawl, fp, consumer, outcome, position = parse('>Ic8Bc0B', frame, position)
  if outcome == DEAD then
    letter = {}
    letter.status, letter.class, letter.reason, letter.page, position =
      parse('>HBc0Hc0Ic0', frame, position)
  end
  items, tally, history, position = parse('>Ic0Hc0Hc0', frame, position)
  accepted[i] = acknowledge(crawl, fp, consumer, letter, items, tally, history)
end
save()
save_items()
save_page_removals()
return table.concat(accepted)
