-- add.lua: accept the links that their crawl has not seen.
--
-- KEYS[1]  T:m
-- ARGV     one frame: >H number of links, >H runs, each >I crawl, >H host, s1 pool, >B band, >H links, each >H its
--          place among all links, >I hash (seen.lua), s1 fingerprint in decimal, >I and its ENTRY without the ordinal;
--          then the hosts
-- returns  new, duplicate, and how many belong to a crawl that does not exist
--
-- A run has links of one lane and one band. Where others of that band are waiting, it joins them in one step and its
-- host is not read: that is what most links cost. The places of links give the order in which they were found.

local frame = ARGV[1]
local number, runs, position = parse('>HH', frame)
local ordinal, latest = meta.ordinal, math.max(meta.moment, step)
local crawls = {}  -- crawl -> what this call adds to it
local fresh, size = {}, 0  -- seen-set, fingerprint and hash of new links, alternating; number of values
local opening = {}  -- runs that are the first of their band in their lane
local entries = {}  -- of the current run

local function crawl_of(id)
  local crawl = crawls[id]
  if crawl == nil then
    local options = options_of(id)
    crawl = options and {
      id = id, budget = options.budget, seen = seen_of(tag, id), brought = {}, new = 0, duplicate = 0,
    }
    crawls[id] = crawl
  end
  return crawl
end

-- Return how many requests a host may still add.
local function left_of(crawl, host)
  if crawl.budget == 0 then return math.huge end
  crawl.brought[host] = crawl.brought[host] or tonumber(call('HGET', tag .. ':b:' .. crawl.id, host)) or 0
  return crawl.budget - crawl.brought[host]
end

-- Read the links of a run; return how many are new, and the place of the first of them. Fills `entries`.
local function read_run(crawl, host, links)
  local waiting, first, left, seen = 0, nil, left_of(crawl, host), crawl.seen
  for _ = 1, links do
    local place, hash, decimal, rest
    place, hash, decimal, rest, position = parse('>HIBc0Ic0', frame, position)
    if waiting >= left then
      if seen_has(seen, decimal, hash) then
        crawl.duplicate = crawl.duplicate + 1
      else
        count(crawl.id, 'over_budget', 1)
      end
    elseif seen_add(seen, decimal, hash) then
      fresh[size + 1], fresh[size + 2], fresh[size + 3] = seen, decimal, hash
      size = size + 3
      waiting = waiting + 1
      entries[waiting] = pack('>I6', ordinal + place) .. rest
      first = first or place
    else
      crawl.duplicate = crawl.duplicate + 1
    end
  end
  if crawl.budget > 0 then crawl.brought[host] = crawl.brought[host] + waiting end
  return waiting, first
end

local function read_runs()
  local without_crawl = 0
  for _ = 1, runs do
    local id, host, pool, band, links
    id, host, pool, band, links, position = parse('>IHBc0BH', frame, position)
    local crawl = crawl_of(id)
    if crawl then
      local name = ARGV[host + 1]
      local waiting, first = read_run(crawl, name, links)
      crawl.new = crawl.new + waiting
      count_pool(id, pool, waiting)
      if waiting > 0 and call('RPUSHX', fresh_key(id, pool, band, name), unpack(entries, 1, waiting)) == 0 then
        opening[#opening + 1] = {id, name, pool, band, latest + first, unpack(entries, 1, waiting)}
      end
    else
      without_crawl = without_crawl + links
      for _ = 1, links do _, _, _, _, position = parse('>HIBc0Ic0', frame, position) end
    end
  end
  return without_crawl
end

-- Create lists for the runs that found none. An empty lane gets its moment from its first link, as if links were added
-- one by one, in the order in which they were found.
local function open_lists()
  local names = {}
  for i, run in ipairs(opening) do names[i] = run[2] end
  prefetch_hosts(names)
  for _, run in ipairs(opening) do
    local id, name, pool, band, moment = unpack(run, 1, 5)
    local lane = ensure_lane(host_of(name), id, pool, false)
    for i = 6, #run do enqueue_fresh(lane, band, run[i], moment) end
  end
end

local function add()
  local without_crawl, new, duplicate = read_runs(), 0, 0
  meta.ordinal, meta.moment = ordinal + number, math.max(meta.moment, latest + number)
  open_lists()
  for id, crawl in pairs(crawls) do
    if crawl then
      new, duplicate = new + crawl.new, duplicate + crawl.duplicate
      count(id, 'accepted', crawl.new)
      count(id, 'waiting', crawl.new)
      count(id, 'duplicate', crawl.duplicate)
      for host, brought in pairs(crawl.brought) do call('HSET', tag .. ':b:' .. id, host, brought) end
    end
  end
  save()
  seen_save()
  return {new, duplicate, without_crawl}
end

-- A link that is seen and not waiting would be lost. So a call that fails removes its links from the seen-set, and a
-- link may be waiting twice. Its ordinals are not used again: lists are in their order.
local whole, answer = pcall(add)
if whole then
  seen_grow()
  return answer
end
call('HSET', KEYS[1], 'ordinal', format_int(ordinal + number))
for i = 1, size, 3 do seen_remove(fresh[i], fresh[i + 1], fresh[i + 2]) end
error(answer)
