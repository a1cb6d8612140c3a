-- leases.lua: batches of requests that are out, and what becomes of one that comes back. LEASED of keys.py.
--
-- In a batch a request goes by an id of twelve bytes: >I crawl, and its fingerprint. Two crawls may have the same.
--
-- The token of a batch is the fence: a settlement finds its request in the batch or comes too late, and no
-- other check is needed. Each request has a deadline of its own, because a worker may extend some of a batch;
-- T:lx has the earliest, and whether they differ is noted with the batch, so that the usual case costs nothing.

local LEASED = '>ddBdIBc0Bc0'  -- with the RECORD in it, but for its entry
local LEASED_SIZE = 17  -- without it
local LANDED_AT = 17  -- the byte that says so

local batches = {}  -- token -> {holder, mixed, records, ended}; as far as this call has come

local function batch_key(token)
  return tag .. ':l:' .. string.format('%.0f', token)
end

local function batch_of(token)
  local batch = batches[token]
  if not batch then
    batch = {key = batch_key(token), records = {}, ended = {}, mixed = false, holder = ''}
    batches[token] = batch
  end
  return batch
end

local function read_head(batch, packed)
  if packed then batch.mixed, batch.holder = string.sub(packed, 1, 1) == '1', string.sub(packed, 2) end
end

local function lease_id(crawl, fp)
  return struct.pack('>I', crawl) .. fp
end

-- Read some requests of a batch, in one call.
local function load_leased(token, ids)
  local batch = batch_of(token)
  local found = redis.call('HMGET', batch.key, '_', unpack(ids))
  read_head(batch, found[1])
  for i = 1, #ids do batch.records[ids[i]] = found[i + 1] or nil end  -- missing ones come as false
  return batch
end

-- Read a whole batch; it has no more than one call can hand out.
local function load_batch(token)
  local batch = batch_of(token)
  local found = redis.call('HGETALL', batch.key)
  for i = 1, #found, 2 do
    if found[i] == '_' then
      read_head(batch, found[i + 1])
    else
      batch.records[found[i]] = found[i + 1]
    end
  end
  for _, id in ipairs(batch.ended) do batch.records[id] = nil end
  return batch
end

local function unpack_leased(packed)
  local _, granted_at, landed, ordinal, crawl, name, pool, position = struct.unpack(LEASED, packed)
  return {
    granted_at = granted_at, landed = landed == 1, ordinal = ordinal, crawl = crawl, name = name, pool = pool,
    entry = string.sub(packed, position),
  }
end

local function deadline_of(record)
  return (struct.unpack('>d', record))
end

-- Take a request out of its batch.
local function end_lease(batch, id)
  batch.records[id] = nil
  batch.ended[#batch.ended + 1] = id
end

-- Note how many suspects a holder has: no more than one, but where a script was cut short.
local function hold_suspect(holder, by)
  if redis.call('HINCRBY', tag .. ':su', holder, by) <= 0 then redis.call('HDEL', tag .. ':su', holder) end
end

local function earliest(batch)
  local first = math.huge
  for _, record in pairs(batch.records) do first = math.min(first, deadline_of(record)) end
  return first
end

-- Remove what has ended; to be called last.
local function save_batches()
  for token, batch in pairs(batches) do
    local ended, member = batch.ended, string.format('%.0f', token)
    if #ended > 0 and redis.call('HLEN', batch.key) <= #ended + 1 then  -- its head alone is left
      redis.call('DEL', batch.key)
      redis.call('ZREM', tag .. ':lx', member)
    elseif #ended > 0 then
      call_with('HDEL', batch.key, ended)
      if batch.mixed then redis.call('ZADD', tag .. ':lx', earliest(load_batch(token)), member) end
    end
    batch.ended = {}
  end
end

-- --- what becomes of a request ---------------------------------------------------------------------

local function let_go(host, landed)
  if not landed then
    host.inflight = math.max(host.inflight - 1, 0)
    touch(host)
  end
end

-- Let a request wait again, at once or after `delay`.
local function put_back(host, crawl, pool, ordinal, entry, delay)
  local packed = pack_entry(entry)
  if delay > 0 then
    push(added, tag .. ':dl:' .. crawl, now + delay, pack_record(ordinal, crawl, host.name, pool, packed))
    count(crawl, 'delayed', 1)
  else
    wait(lane_of(host, crawl, pool, entry.crashes > 0), ordinal, packed)
    count(crawl, 'waiting', 1)
  end
end

-- Give a request up. LETTER of keys.py.
local function die(crawl, ordinal, entry, record, letter)
  local page, holder, reason = letter.page or '', string.sub(letter.holder, 1, 255), letter.reason
  local packed = struct.pack('>dHIc0Bc0Bc0Hc0', told(now), letter.status, #page, page, #holder, holder,
    #letter.class, letter.class, #reason, reason) .. record
  push(written, tag .. ':d:' .. crawl, entry.fp, packed)  -- after its date: who lists letters goes by dates
  push(added, tag .. ':dz:' .. crawl, told(now), struct.pack('>d', ordinal) .. entry.fp)
  count(crawl, 'dead', 1)
  count(crawl, 'dead.' .. letter.class, 1)
end

-- Charge a request whose holder died or overran.
local function crash(batch, id)
  local leased = unpack_leased(batch.records[id])
  local crawl, ordinal, pool = leased.crawl, leased.ordinal, leased.pool
  local host, terms, entry = host_of(leased.name), terms_of(crawl), unpack_entry(leased.entry)
  end_lease(batch, id)
  let_go(host, leased.landed)
  if entry.crashes > 0 then hold_suspect(batch.holder, -1) end
  if not terms then return end  -- dropped
  entry.first_at = entry.first_at or leased.granted_at
  entry.attempts = math.min(entry.attempts + 1, MOST_ATTEMPTS)
  entry.crashes = math.min(entry.crashes + 1, MOST_CRASHES)
  count(crawl, 'leased', -1)
  count(crawl, 'crashes', 1)
  if entry.crashes < terms.max_crashes then
    put_back(host, crawl, pool, ordinal, entry, 0)
    return
  end
  die(crawl, ordinal, entry, pack_record(ordinal, crawl, host.name, pool, pack_entry(entry)), {
    status = 0, class = 'poison', holder = batch.holder,
    reason = 'its holder died or overran ' .. entry.crashes .. ' times',
  })
end

-- --- what time brings ------------------------------------------------------------------------------

-- Take back leases whose deadline has passed, a whole batch at a time until `limit` are; name them.
local function reclaim(limit)
  local lost = {}
  local tokens = redis.call('ZRANGEBYSCORE', tag .. ':lx', '-inf', now, 'LIMIT', 0, limit)
  table.sort(tokens, function(one, other) return tonumber(one) < tonumber(other) end)
  for _, member in ipairs(tokens) do
    if #lost >= limit then break end
    local token = tonumber(member)
    local batch, expired = load_batch(token), {}
    for id, record in pairs(batch.records) do
      if deadline_of(record) <= now then
        local ordinal, crawl = struct.unpack('>dI', record, LEASED_SIZE + 1)
        local terms = terms_of(crawl)
        expired[#expired + 1] = {id = id, ordinal = ordinal, name = terms and terms.name or ''}
      end
    end
    -- In the order in which they were accepted: as good as any, and the same on every server.
    table.sort(expired, function(one, other)
      if one.name ~= other.name then return one.name < other.name end
      return one.ordinal < other.ordinal
    end)
    for _, one in ipairs(expired) do
      crash(batch, one.id)
      lost[#lost + 1] = struct.pack('>dc12', token, one.id)
    end
    if next(batch.records) then
      batch.mixed = true  -- some have another deadline: look for the earliest
    elseif #expired == 0 then
      redis.call('ZREM', tag .. ':lx', member)  -- a batch that is gone
    end
  end
  return lost
end

-- Let wait what was delayed until now.
local function promote(crawl, limit)
  local key = tag .. ':dl:' .. crawl
  for _, record in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit)) do
    local ordinal, _, name, pool, packed = unpack_record(record)
    wait(lane_of(host_of(name), crawl, pool, is_suspect(packed)), ordinal, packed)
    push(removed, key, record)
    count(crawl, 'delayed', -1)
    count(crawl, 'waiting', 1)
  end
end

-- Note that requests are off the wire although their leases are not settled: >dc12 token and id, repeated.
local function land(frame)
  local ids = {}
  for position = 1, #frame, 20 do
    local token, id = struct.unpack('>dc12', frame, position)
    push(ids, token, id)
  end
  for token, several in pairs(ids) do
    local batch, landed = load_leased(token, several), {}
    for _, id in ipairs(several) do
      local record = batch.records[id]
      if record and string.byte(record, LANDED_AT) == 0 then
        let_go(host_of(unpack_leased(record).name), false)
        record = string.sub(record, 1, LANDED_AT - 1) .. '\1' .. string.sub(record, LANDED_AT + 1)
        batch.records[id] = record
        landed[#landed + 1], landed[#landed + 2] = id, record
      end
    end
    call_with('HSET', batch.key, landed)
  end
end
