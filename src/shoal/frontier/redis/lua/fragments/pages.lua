-- pages.lua: pages that are fetched and not parsed yet, and the items of pages. PAGE of keys.py.

-- Return the number of items from the header of their msgpack array: unpacking them would cost more than the rest.
local function item_count(items)
  local first = byte(items)
  if first == 0xdc then return (parse('>H', items, 2)) end
  if first == 0xdd then return (parse('>I', items, 2)) end
  return first - 0x90
end

local new_items = {}  -- crawl, fingerprint and items, alternating

local function append_items(crawl, fp, items)
  local size = #new_items
  new_items[size + 1], new_items[size + 2], new_items[size + 3] = crawl, fp, items
  count(crawl, 'items', item_count(items))
end

local total_changes = {}  -- crawl -> total -> change

-- Add to the totals of a crawl: s1 name, >I number, repeated.
local function add_totals(crawl, tally)
  local changes, position = total_changes[crawl] or {}, 1
  total_changes[crawl] = changes
  while position <= #tally do
    local name, by
    name, by, position = parse('>Bc0I', tally, position)
    changes[name] = (changes[name] or 0) + by
  end
end

local new_histories = {}  -- crawl, fingerprint and what the next generations need to know, alternating

local function add_history(crawl, fp, history)
  local size = #new_histories
  new_histories[size + 1], new_histories[size + 2], new_histories[size + 3] = crawl, fp, history
end

-- Write the items, histories and totals just before what makes the caller repeat the call is removed: a script that is aborted
-- earlier has written none, and one that is aborted later writes them twice.
local function save_items()
  for i = 1, #new_items, 3 do
    call('XADD', tag .. ITEMS_KEY .. new_items[i], '*', 'fp', new_items[i + 1], 'items', new_items[i + 2])
  end
  new_items = {}
  for i = 1, #new_histories, 3 do
    call('HSET', tag .. ':hy:' .. new_histories[i], new_histories[i + 1], new_histories[i + 2])
  end
  new_histories = {}
  for crawl, changes in pairs(total_changes) do
    for name, by in pairs(changes) do call('HINCRBY', tag .. ':tot:' .. crawl, name, format_int(by)) end
  end
  total_changes = {}
end

local function add_page(crawl, entry, record, page, holder)
  local name = sub(holder, 1, 255)
  local id = call('XADD', tag .. PAGES_KEY, '*', 'crawl', options_of(crawl).name, 'fp', entry.fp,
    'request', entry.request, 'page', page)
  call('HSET', tag .. ':pg:' .. crawl, entry.fp,
    pack('>HIc0c0Bc0', #id, #page, id, page, #name, name) .. record)
end

-- Announce a page to the parse stage, in the same atomic step as its state changes.
local function announce(crawl, entry, record, page, holder)
  add_page(crawl, entry, record, page, holder)
  count(crawl, 'parsing', 1)
end

local function unpack_page(packed)
  local page, id_size, size, position = {}
  id_size, size, position = parse('>HI', packed)
  page.id = sub(packed, position, position + id_size - 1)
  page.page = sub(packed, position + id_size, position + id_size + size - 1)
  page.holder, position = parse('>Bc0', packed, position + id_size + size)
  page.record = sub(packed, position)
  return page
end

local removed_pages = {}

-- End a page.
local function remove_page(crawl, fp, page)
  removed_pages[#removed_pages + 1] = {crawl = crawl, fp = fp, id = page.id}
  count(crawl, 'parsing', -1)
end

-- Delete ended pages from the stream; to be called last.
local function save_page_removals()
  for _, page in ipairs(removed_pages) do
    call('XACK', tag .. PAGES_KEY, PARSE_GROUP, page.id)
    call('XDEL', tag .. PAGES_KEY, page.id)
    call('HDEL', tag .. ':pg:' .. page.crawl, page.fp)
  end
  removed_pages = {}
end
