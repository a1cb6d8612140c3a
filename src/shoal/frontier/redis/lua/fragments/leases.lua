-- leases.lua: batches of leased requests, and the ways in which a lease ends. LEASED of keys.py.
--
-- In a batch a request has an id of twelve bytes: >I crawl, and its fingerprint. Two crawls may have the same one.
--
-- The token of a batch is the fence: a settlement finds its request in the batch, or its lease is lost; no other check
-- is needed. Each request has its own deadline, because a worker may extend part of a batch. T:lx has the earliest
-- one; the batch records whether they differ, so that the usual case costs nothing.

local LEASED = '>ddBdHIBc0Bc0'  -- includes the RECORD, without its entry
local LANDED_AT = 17  -- the byte that is 1 once a request has landed

-- A lease is an array, like a host: its batch, id and record, then the fields of LEASED.
local BATCH, ID, HELD, GRANTED_AT, LANDED, HELD_INTERVAL, HELD_CRAWL, HELD_HOST = 1, 2, 3, 5, 6, 7, 9, 10
local HELD_POOL, ENTRY_AT = 11, 12

local batches = {}  -- token -> batch, with the changes of this call

-- The hashes of filtered requests that readmit.lua can requeue, by rule.
local READMITTABLE = {robots = ':rd:', held = ':hd:'}

local function batch_key(token)
  return tag .. ':l:' .. format('%.0f', token)
end

local function batch_of(token)
  local batch = batches[token]
  if not batch then
    batch = {token = token, key = batch_key(token), records = {}, ended = {}, mixed = false, holder = ''}
    batches[token] = batch
  end
  return batch
end

local function read_head(batch, packed)
  if packed then batch.mixed, batch.holder = sub(packed, 1, 1) == '1', sub(packed, 2) end
end

local id_prefixes = {}  -- crawl -> its part of an id

local function lease_id(crawl, entry)
  local prefix = id_prefixes[crawl]
  if not prefix then
    prefix = pack('>I', crawl)
    id_prefixes[crawl] = prefix
  end
  return prefix .. sub(entry, FP_FIRST, FP_LAST)
end

-- Read some requests of a batch, with one command.
local function load_leases(token, ids)
  local batch = batch_of(token)
  local found = call('HMGET', batch.key, '_', unpack(ids))
  read_head(batch, found[1])
  for i = 1, #ids do batch.records[ids[i]] = found[i + 1] or nil end  -- missing ones are false
  return batch
end

-- Read a whole batch; it has at most what one call can grant.
local function load_batch(token)
  local batch = batch_of(token)
  local found = call('HGETALL', batch.key)
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

local function unpack_leased(batch, id, record)
  return {batch, id, record, parse(LEASED, record)}
end

local function entry_in(lease)
  return sub(lease[HELD], lease[ENTRY_AT])
end

local function deadline_of(record)
  return (parse('>d', record))
end

-- Remove a request from its batch.
local function end_lease(lease)
  local batch, id = lease[BATCH], lease[ID]
  batch.records[id] = nil
  batch.ended[#batch.ended + 1] = id
end

-- Change the number of suspects of a holder: at most one, unless a script was aborted.
local function hold_suspect(holder, by)
  if call('HINCRBY', tag .. ':su', holder, by) <= 0 then call('HDEL', tag .. ':su', holder) end
end

local function earliest(batch)
  local first = math.huge
  for _, record in pairs(batch.records) do first = math.min(first, deadline_of(record)) end
  return first
end

-- Delete the leases that have ended; to be called last.
local function save_batches()
  for token, batch in pairs(batches) do
    local ended, member = batch.ended, format('%.0f', token)
    if #ended > 0 and call('HLEN', batch.key) <= #ended + 1 then  -- only its head is left
      call('DEL', batch.key)
      call('ZREM', tag .. ':lx', member)
    elseif #ended > 0 then
      call_with('HDEL', batch.key, ended)
      if batch.mixed then call('ZADD', tag .. ':lx', earliest(load_batch(token)), member) end
    end
    batch.ended = {}
  end
end

-- --- ends of a lease -------------------------------------------------------------------------------

local function release_slot(host, lease)
  if lease[LANDED] == 0 then
    host[INFLIGHT] = math.max(host[INFLIGHT] - 1, 0)
    if pending_leases(host) > host[INFLIGHT] then set_pending_leases(host, host[INFLIGHT]) end
    mark_dirty(host)
  end
end

-- Enqueue a request again, at once or after `delay`.
local function requeue(host, crawl, pool, entry, delay)
  local packed = pack_entry(entry)
  count_pool(crawl, pool, 1)
  if delay > 0 then
    push(zset_adds, tag .. ':dl:' .. crawl, now + delay, pack_record(crawl, host[NAME], pool, packed))
    count(crawl, 'delayed', 1)
  else
    enqueue(ensure_lane(host, crawl, pool, entry.crashes > 0), packed)
    count(crawl, 'waiting', 1)
  end
end

-- Store a request as a dead letter. DEAD_LETTER of keys.py.
local function add_dead_letter(crawl, entry, record, letter)
  local page, holder, reason = letter.page or '', sub(letter.holder, 1, 255), letter.reason
  local packed = pack('>dHIc0Bc0Bc0Hc0', server_time(now), letter.status, #page, page, #holder, holder,
    #letter.class, letter.class, #reason, reason) .. record
  push(hash_writes, tag .. ':d:' .. crawl, entry.fp, packed)  -- written after its date, by which letters are listed
  push(zset_adds, tag .. ':dz:' .. crawl, server_time(now), pack('>d', entry.ordinal) .. entry.fp)
  count(crawl, 'dead', 1)
  count(crawl, 'dead.' .. letter.class, 1)
end

-- Charge a crash to a request whose holder died or overran.
local function charge_crash(lease)
  local holder, crawl, pool = lease[BATCH].holder, lease[HELD_CRAWL], lease[HELD_POOL]
  local host, options, entry = host_of(lease[HELD_HOST]), options_of(crawl), unpack_entry(entry_in(lease))
  end_lease(lease)
  release_slot(host, lease)
  if entry.crashes > 0 then hold_suspect(holder, -1) end
  if not options then return end  -- the crawl was deleted
  entry.first_at = entry.first_at or lease[GRANTED_AT]
  entry.attempts = math.min(entry.attempts + 1, MAX_ATTEMPTS)
  entry.crashes = math.min(entry.crashes + 1, MAX_CRASHES)
  count(crawl, 'leased', -1)
  count(crawl, 'crashes', 1)
  if entry.crashes < options.max_crashes then
    requeue(host, crawl, pool, entry, 0)
    return
  end
  add_dead_letter(crawl, entry, pack_record(crawl, host[NAME], pool, pack_entry(entry)), {
    status = 0, class = 'poison', holder = holder,
    reason = 'its holder died or overran ' .. entry.crashes .. ' times',
  })
end

-- --- expired leases and delays ---------------------------------------------------------------------

-- Reclaim leases whose deadline has passed, in whole batches, until there are `limit`; return their ids.
local function reclaim(limit)
  local lost = {}
  local tokens = call('ZRANGEBYSCORE', tag .. ':lx', '-inf', now, 'LIMIT', 0, limit)
  table.sort(tokens, function(one, other) return tonumber(one) < tonumber(other) end)
  for _, member in ipairs(tokens) do
    if #lost >= limit then break end
    local token = tonumber(member)
    local batch, expired = load_batch(token), {}
    for id, record in pairs(batch.records) do
      if deadline_of(record) <= now then
        local lease = unpack_leased(batch, id, record)
        local options = options_of(lease[HELD_CRAWL])
        expired[#expired + 1] = {
          lease = lease, ordinal = ordinal_of(entry_in(lease)), name = options and options.name or '',
        }
      end
    end
    -- In the order in which they were accepted: any order would do, but this one is the same on every server.
    table.sort(expired, function(one, other)
      if one.name ~= other.name then return one.name < other.name end
      return one.ordinal < other.ordinal
    end)
    for _, one in ipairs(expired) do
      charge_crash(one.lease)
      lost[#lost + 1] = pack('>dc12', token, one.lease[ID])
    end
    if #expired == 0 then  -- a script was aborted: due batches would wait behind this one
      local first = earliest(batch)
      if first < math.huge then call('ZADD', tag .. ':lx', first, member) else call('ZREM', tag .. ':lx', member) end
    elseif next(batch.records) then
      batch.mixed = true  -- the rest has other deadlines: the earliest is stored
    end
  end
  return lost
end

-- Enqueue requests whose delay has ended.
local function promote_delayed(crawl, limit)
  local key = tag .. ':dl:' .. crawl
  for _, record in ipairs(call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit)) do
    local _, name, pool, packed = unpack_record(record)
    enqueue(ensure_lane(host_of(name), crawl, pool, is_suspect(packed)), packed)
    push(zset_removals, key, record)
    count(crawl, 'delayed', -1)
    count(crawl, 'waiting', 1)
  end
end

-- Record that requests have landed (are no longer in flight) before their leases are settled: >dc12 token and id,
-- repeated.
local function mark_landed(frame)
  local ids = {}
  for position = 1, #frame, 20 do
    local token, id = parse('>dc12', frame, position)
    push(ids, token, id)
  end
  for token, several in pairs(ids) do
    local batch, landed = load_leases(token, several), {}
    for _, id in ipairs(several) do
      local record = batch.records[id]
      if record and byte(record, LANDED_AT) == 0 then
        local lease = unpack_leased(batch, id, record)
        release_slot(host_of(lease[HELD_HOST]), lease)
        record = sub(record, 1, LANDED_AT - 1) .. '\1' .. sub(record, LANDED_AT + 1)
        batch.records[id] = record
        landed[#landed + 1], landed[#landed + 2] = id, record
      end
    end
    call_with('HSET', batch.key, landed)
  end
end
