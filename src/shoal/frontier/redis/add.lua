-- add.lua: accept the links that their crawl has not seen.
--
-- ARGV     one frame: >H lanes, each >I crawl, s1 host, s1 pool; >H links, each >H lane (from 1), >B priority,
--          s1 fingerprint in decimal, 8 bytes fingerprint, >I and packed request
-- returns  new, duplicate, and how many belong to a crawl that is not there
--
-- Queued first, seen after: cut short between the two, a link is accepted again, and not lost.

local frame, position = ARGV[1], 1
local lanes, names, number = {}, {}
local before = {}  -- crawl and pool of the lane before: mostly those of all

number, position = struct.unpack('>H', frame, position)
for i = 1, number do
  local crawl, host, pool
  crawl, host, pool, position = struct.unpack('>IBc0Bc0', frame, position)
  if crawl ~= before.crawl or pool ~= before.pool then
    before = {crawl = crawl, pool = pool, queues = tag .. ':q:' .. crawl .. ':' .. pool .. ':'}
  end
  lanes[i] = {
    crawl = crawl, host = host, pool = pool, queue = before.queues .. host, head = false, to = false,
  }
  names[i] = host
end

peek_hosts(names)

local crawls = {}  -- crawl -> what it has accepted so far, and what of it is fresh

local function crawl_of(id)
  local crawl = crawls[id]
  if crawl == nil then
    local terms = terms_of(id)
    crawl = terms and {id = id, budget = terms.budget, fresh = {}, brought = {}, duplicate = 0}
    if crawl then
      crawl.before = tonumber(redis.call('HGET', tag .. ':n:' .. id, 'accepted')) or 0
      crawl.accepted = crawl.before
    end
    crawls[id] = crawl
  end
  return crawl
end

-- Say whether a host has brought as many requests as it may; if not, this is one more.
local function over_budget(crawl, host)
  if crawl.budget == 0 then return false end
  local brought = crawl.brought[host]
  brought = brought or tonumber(redis.call('HGET', tag .. ':b:' .. crawl.id, host)) or 0
  if brought >= crawl.budget then return true end
  crawl.brought[host] = brought + 1
  return false
end

local new, duplicate, homeless = 0, 0, 0
local fresh, known = {}, 0  -- crawl, fingerprint and its place in the seen-set, by turns; how many values

number, position = struct.unpack('>H', frame, position)
for _ = 1, number do
  local lane, priority, decimal, fp, request
  lane, priority, decimal, fp, request, position = struct.unpack('>HBBc0c8Ic0', frame, position)
  lane = lanes[lane]
  local crawl, seen, place = crawl_of(lane.crawl)
  if crawl then
    seen = crawl.fresh[decimal]
    if not seen then seen, place = seen_has(tag, lane.crawl, decimal) end
  end
  if not crawl then
    homeless = homeless + 1
  elseif seen then
    duplicate = duplicate + 1
    crawl.duplicate = crawl.duplicate + 1
  elseif over_budget(crawl, lane.host) then
    count(lane.crawl, 'over_budget', 1)
  else
    new = new + 1
    crawl.accepted = crawl.accepted + 1
    crawl.fresh[decimal] = true
    fresh[known + 1], fresh[known + 2], fresh[known + 3] = lane.crawl, decimal, place
    known = known + 3
    local entry = struct.pack(ENTRY, 0, 0, 0, priority, fp, crawl.accepted) .. request
    -- Most links join a lane that is waiting already, behind its head: that concerns nobody else, and should
    -- cost no more.
    lane.head = lane.head or peek_lane(lane.host, lane.crawl, lane.pool) or EMPTY
    if lane.head ~= EMPTY and lane.head <= priority then
      push(added, lane.queue, printed(priority * RANK + crawl.accepted), entry)
    else
      lane.to = lane.to or lane_of(host_of(lane.host), lane.crawl, lane.pool, false)
      wait(lane.to, crawl.accepted, entry)
      lane.head = lane.to.band
    end
  end
end

for id, crawl in pairs(crawls) do
  if crawl then
    count(id, 'accepted', crawl.accepted - crawl.before)
    count(id, 'waiting', crawl.accepted - crawl.before)
    count(id, 'duplicate', crawl.duplicate)
  end
end
save()
for id, crawl in pairs(crawls) do
  for host, brought in pairs(crawl and crawl.brought or {}) do
    redis.call('HSET', tag .. ':b:' .. id, host, brought)
  end
end
for i = 1, known, 3 do seen_add(tag, fresh[i], fresh[i + 1], fresh[i + 2]) end
seen_save()
return {new, duplicate, homeless}
