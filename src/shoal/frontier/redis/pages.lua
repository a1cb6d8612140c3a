-- pages.lua: pages that are fetched and still to be parsed, and what they bring. PAGE of keys.py.

local GROUP = 'parse'  -- consumers of T:pages

-- How many items there are, by the header of their msgpack array: unpacking them would cost more than the rest.
local function number_of(items)
  local first = string.byte(items)
  if first == 0xdc then return (struct.unpack('>H', items, 2)) end
  if first == 0xdd then return (struct.unpack('>I', items, 2)) end
  return first - 0x90
end

local function bring_items(crawl, fp, items)
  if #items == 0 then return end
  redis.call('XADD', tag .. ':items:' .. crawl, '*', 'fp', fp, 'items', items)
  count(crawl, 'items', number_of(items))
end

-- Announce a page to the parse stage: in the same step as its state changes, so neither is without the other.
local function announce(crawl, entry, record, page, holder)
  local name = string.sub(holder, 1, 255)
  local id = redis.call('XADD', tag .. ':pages', '*', 'crawl', terms_of(crawl).name, 'fp', entry.fp,
    'request', entry.request, 'page', page)
  redis.call('HSET', tag .. ':pg:' .. crawl, entry.fp,
    struct.pack('>HIc0c0Bc0', #id, #page, id, page, #name, name) .. record)
  count(crawl, 'parsing', 1)
end

local function unpack_page(packed)
  local page, id_size, size, position = {}
  id_size, size, position = struct.unpack('>HI', packed)
  page.id = string.sub(packed, position, position + id_size - 1)
  page.page = string.sub(packed, position + id_size, position + id_size + size - 1)
  page.holder, position = struct.unpack('>Bc0', packed, position + id_size + size)
  page.record = string.sub(packed, position)
  return page
end

local withdrawn = {}

-- A page has come to its end.
local function withdraw(crawl, fp, page)
  withdrawn[#withdrawn + 1] = {crawl = crawl, fp = fp, id = page.id}
  count(crawl, 'parsing', -1)
end

-- Take pages back from the stream; to be called last.
local function save_withdrawals()
  for _, page in ipairs(withdrawn) do
    redis.call('XACK', tag .. ':pages', GROUP, page.id)
    redis.call('XDEL', tag .. ':pages', page.id)
    redis.call('HDEL', tag .. ':pg:' .. page.crawl, page.fp)
  end
  withdrawn = {}
end
