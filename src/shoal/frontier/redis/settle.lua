-- settle.lua: end attempts, each with what its page brought.
--
-- ARGV     one frame: >H number, each >d token, 12 bytes id (leases.lua), >B outcome, >B flags (1 blocked, 2 sent,
--          4 the host answered), >d interval under which it was leased; then by outcome
--            fetched   >I page
--            filtered  s1 rule
--            dead      >H status, s1 class, >H reason, >I page (empty: none)
--            retry     >d delay, >B charged, >d rest of the host
--            released  >d delay
--          and >I items (empty: none)
-- returns  a `1` for each that was accepted, a `0` for each that came too late

local DONE, FETCHED, GONE, FILTERED, DEAD, RETRY, RELEASED = 1, 2, 3, 4, 5, 6, 7
local BLOCKED, SENT, ANSWERED = 1, 2, 4

local PAYLOAD = {
  [FETCHED] = {'>Ic0', 'page'},
  [FILTERED] = {'>Bc0', 'rule'},
  [DEAD] = {'>HBc0Hc0Ic0', 'status', 'class', 'reason', 'page'},
  [RETRY] = {'>dBd', 'delay', 'charged', 'rest'},
  [RELEASED] = {'>d', 'delay'},
}

local function read_settlement(frame, position)
  local settlement = {}
  settlement.token, settlement.id, settlement.outcome, settlement.flags, settlement.interval, position =
    struct.unpack('>dc12BBd', frame, position)
  local payload = PAYLOAD[settlement.outcome]
  if payload then
    local values = {struct.unpack(payload[1], frame, position)}
    for i = 2, #payload do settlement[payload[i]] = values[i - 1] end
    position = values[#values]
  end
  settlement.items, position = struct.unpack('>Ic0', frame, position)
  return settlement, position
end

-- What is left of a request once its attempt has ended.
local function conclude(settlement, batch, host, crawl, pool, ordinal, entry)
  local outcome = settlement.outcome
  local function record()
    return pack_record(ordinal, {host = host, crawl = crawl, pool = pool}, pack_entry(entry))
  end
  if outcome == DONE then
    count(crawl, 'done', 1)
  elseif outcome == GONE then
    count(crawl, 'gone', 1)
  elseif outcome == FILTERED then
    count(crawl, 'filtered', 1)
    count(crawl, 'filtered.' .. settlement.rule, 1)
  elseif outcome == FETCHED then
    entry.attempts = math.min(entry.attempts + 1, MOST_ATTEMPTS)
    announce(crawl, entry, record(), settlement.page, batch.holder)
  elseif outcome == DEAD then
    host.failures = host.failures + 1
    entry.attempts = math.min(entry.attempts + 1, MOST_ATTEMPTS)
    settlement.holder = batch.holder
    die(crawl, ordinal, entry, record(), settlement)
  elseif outcome == RETRY then
    host.failures = host.failures + 1
    count(crawl, 'retries', 1)
    if settlement.charged == 1 then
      entry.attempts = math.min(entry.attempts + 1, MOST_ATTEMPTS)
    else
      entry.rests = math.min(entry.rests + 1, MOST_ATTEMPTS)
    end
    if settlement.rest > 0 then rest(host, now + settlement.rest) end
    put_back(host, crawl, pool, ordinal, entry, settlement.delay)
  else
    put_back(host, crawl, pool, ordinal, entry, settlement.delay)
  end
end

local function settle(settlement, batch)
  local leased = batch.records[settlement.id]
  local _, granted_at, landed, record = unpack_leased(leased)
  local ordinal, crawl, name, pool, packed = unpack_record(record)
  local host, entry, terms = host_of(name), unpack_entry(packed), terms_of(crawl)
  end_lease(batch, settlement.id)
  let_go(host, landed)
  touch(host)
  if not flag(settlement.flags, SENT) then
    give_back(host, settlement.token, settlement.interval)
  elseif flag(settlement.flags, ANSWERED) then
    hear(host, flag(settlement.flags, BLOCKED))
  end
  if entry.crashes > 0 then hold_suspect(batch.holder, -1) end
  if not terms then return false end  -- dropped
  if settlement.outcome ~= RELEASED then entry.first_at = entry.first_at or granted_at end
  count(crawl, 'leased', -1)
  conclude(settlement, batch, host, crawl, pool, ordinal, entry)
  bring_items(crawl, entry.fp, settlement.items)
  return true
end

local settlements, ids, position, number = {}, {}, 1
number, position = struct.unpack('>H', ARGV[1], position)
for i = 1, number do
  settlements[i], position = read_settlement(ARGV[1], position)
  push(ids, settlements[i].token, settlements[i].id)
end

local names = {}
for token, several in pairs(ids) do
  for _, record in pairs(load_leased(token, several).records) do
    if record then
      local _, _, name = unpack_record(string.sub(record, LEASED_SIZE + 1))
      names[#names + 1] = name
    end
  end
end
load_hosts(names)

local accepted = {}
for i, settlement in ipairs(settlements) do
  local batch = batch_of(settlement.token)
  accepted[i] = batch.records[settlement.id] and settle(settlement, batch) and '1' or '0'
end
save()
save_batches()
return table.concat(accepted)
