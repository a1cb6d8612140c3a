-- settle.lua: end attempts, each with the items of its page.
--
-- KEYS[1]  T:m
-- ARGV     one frame: >H runs of one batch, each >d token, >H number; then for each settlement >B outcome, >B flags
--          (2 sent, 4 has a signal, from 8 on the signal: `model/adaptive_delay.py`), >I items (empty: none), >H tally (pages.lua), >H history (empty: none), and by outcome
--            fetched   >I page
--            filtered  s1 rule
--            dead      >H status, s1 class, >H reason, >I page (empty: none)
--            retry     >d delay, >B charged, >d rest of the host, s1 pool, >I request (both empty: as it is)
--            released  >d delay, s1 pool, >I request (both empty: as it is)
--          then the ids of all of them (leases.lua), without duplicates
-- returns  a `1` for each that was accepted, a `0` for each whose lease is lost
--
-- The same rules are in `frontier/sqlite/settle.py` and in the model of the tests; `packing.py` packs the frame.

local DONE, FETCHED, GONE, FILTERED, DEAD, RETRY, RELEASED = 1, 2, 3, 4, 5, 6, 7
local SENT, HAS_SIGNAL, SIGNAL = 2, 4, 8

local PAYLOAD = {
  [FETCHED] = {'>Ic0', 'page'},
  [FILTERED] = {'>Bc0', 'rule'},
  [DEAD] = {'>HBc0Hc0Ic0', 'status', 'class', 'reason', 'page'},
  [RETRY] = {'>dBdBc0Ic0', 'delay', 'charged', 'rest', 'pool', 'request'},
  [RELEASED] = {'>dBc0Ic0', 'delay', 'pool', 'request'},
}

local frame = ARGV[1]
local runs, position = parse('>H', frame)

-- Read the payload of an outcome.
local function read_payload(outcome)
  local payload, wanted = {}, PAYLOAD[outcome]
  local values = {parse(wanted[1], frame, position)}
  for i = 2, #wanted do payload[wanted[i]] = values[i - 1] end
  position = values[#values]
  return payload
end

-- Read the leases, with one command per run, and then their hosts.
local function read_leases()
  local leases, names, first = {}, {}, 2
  for _ = 1, runs do
    local token, number
    token, number, position = parse('>dH', frame, position)
    local batch = batch_of(token)
    local found = call('HMGET', batch.key, '_', unpack(ARGV, first, first + number - 1))
    read_head(batch, found[1])
    for i = 2, number + 1 do
      local record, lease = found[i], false
      if record then
        lease = unpack_leased(batch, ARGV[first + i - 2], record)
        names[#names + 1] = lease[HELD_HOST]
      end
      leases[#leases + 1] = lease
    end
    first = first + number
  end
  prefetch_hosts(names)
  return leases
end

-- Record the outcome of a request; most outcomes only change a counter.
local function apply_outcome(outcome, payload, lease, alone, limited)
  local crawl, pool, name = lease[HELD_CRAWL], lease[HELD_POOL], lease[HELD_HOST]
  if outcome == DONE then
    count(crawl, 'done', 1)
    return
  elseif outcome == GONE then
    count(crawl, 'gone', 1)
    return
  elseif outcome == FILTERED then
    count(crawl, 'filtered', 1)
    count(crawl, 'filtered.' .. payload.rule, 1)
    if payload.rule == 'robots' then push(hash_writes, tag .. ':rd:' .. crawl, sub(lease[ID], 5), '') end
    return
  end
  local entry, holder = unpack_entry(entry_in(lease)), lease[BATCH].holder
  if (outcome == RELEASED or outcome == RETRY) and payload.request ~= '' then  -- it waits in another lane, or changed
    pool, entry.request = payload.pool, payload.request
  end
  if outcome == RELEASED then
    requeue(host_of(name), crawl, pool, entry, payload.delay)
    return
  end
  entry.first_at = entry.first_at or lease[GRANTED_AT]
  if outcome == RETRY and payload.charged == 0 and not alone then
    entry.rests = math.min(entry.rests + 1, MAX_ATTEMPTS)
  else
    entry.attempts = math.min(entry.attempts + 1, MAX_ATTEMPTS)
  end
  if outcome == FETCHED then
    announce(crawl, entry, pack_record(crawl, name, pool, pack_entry(entry)), payload.page, holder)
    return
  end
  local host = host_of(name)
  host[FAILURES] = host[FAILURES] + 1
  if outcome == RETRY then
    count(crawl, 'retries', 1)
    if payload.rest > 0 and not alone then rest_host(host, now + payload.rest) end
    requeue(host, crawl, pool, entry, limited and retry_delay(host, payload.delay, payload.rest) or payload.delay)
  else
    payload.holder = holder
    add_dead_letter(crawl, entry, pack_record(crawl, name, pool, pack_entry(entry)), payload)
  end
end

-- Record on the host that its request has ended; return whether the request alone was refused, and whether its host
-- limits it.
local function release(outcome, flags, lease)
  local plain = flags == SENT + HAS_SIGNAL and outcome <= FILTERED  -- a normal response
  if plain and patch_settled(lease[HELD_HOST], lease[LANDED]) then return false end
  local host = host_of(lease[HELD_HOST])
  if not has_flag(flags, SENT) then refund_turn(host, lease[BATCH].token, lease[HELD_INTERVAL]) end
  release_slot(host, lease)
  mark_dirty(host)
  if not has_flag(flags, HAS_SIGNAL) then return false end
  local signal = math.floor(flags / SIGNAL)
  local _, attempts, crashes, rests = parse(ENTRY, lease[HELD], lease[ENTRY_AT])
  if blames_request(host, signal, attempts - crashes, rests) then return true end
  record_response(host, signal)
  return false, signal == RATE_LIMITED
end

local ended = {}  -- crawl -> number of attempts

local function settle(outcome, flags, payload, items, tally, history, lease)
  local crawl = lease[HELD_CRAWL]
  end_lease(lease)
  local alone, limited = release(outcome, flags, lease)
  if byte(lease[HELD], lease[ENTRY_AT] + CRASHES_AT - 1) > 0 then hold_suspect(lease[BATCH].holder, -1) end
  if not options_of(crawl) then return false end  -- the crawl was deleted
  ended[crawl] = (ended[crawl] or 0) + 1
  apply_outcome(outcome, payload, lease, alone, limited)
  if items ~= '' then append_items(crawl, sub(lease[ID], 5), items) end
  if tally ~= '' then add_totals(crawl, tally) end
  if history ~= '' then add_history(crawl, sub(lease[ID], 5), history) end
  return true
end

call('ZCARD', tag .. ':lx')  -- written last: if it has the wrong type, fail before anything is written
local accepted = {}
for i, lease in ipairs(read_leases()) do
  local outcome, flags, items, tally, history, payload
  outcome, flags, items, tally, history, position = parse('>BBIc0Hc0Hc0', frame, position)
  payload = PAYLOAD[outcome] and read_payload(outcome)
  accepted[i] = lease and settle(outcome, flags, payload, items, tally, history, lease) and '1' or '0'
end
for crawl, number in pairs(ended) do count(crawl, 'leased', -number) end
save()
save_items()
save_batches()
return table.concat(accepted)
