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
  local token, id, outcome, flags, interval
  token, id, outcome, flags, interval, position = struct.unpack('>dc12BBd', frame, position)
  local settlement = {token = token, id = id, outcome = outcome, flags = flags, interval = interval, items = ''}
  local payload = PAYLOAD[outcome]
  if payload then
    local values = {struct.unpack(payload[1], frame, position)}
    for i = 2, #payload do settlement[payload[i]] = values[i - 1] end
    position = values[#values]
  end
  settlement.items, position = struct.unpack('>Ic0', frame, position)
  return settlement, position
end

-- What is left of a request once its attempt has ended; most leave nothing but a number.
local function conclude(settlement, batch, host, leased)
  local outcome, crawl, ordinal = settlement.outcome, leased.crawl, leased.ordinal
  if outcome == DONE then
    count(crawl, 'done', 1)
    return
  elseif outcome == GONE then
    count(crawl, 'gone', 1)
    return
  elseif outcome == FILTERED then
    count(crawl, 'filtered', 1)
    count(crawl, 'filtered.' .. settlement.rule, 1)
    return
  end
  local entry = unpack_entry(leased.entry)
  if outcome == RELEASED then
    put_back(host, crawl, leased.pool, ordinal, entry, settlement.delay)
    return
  end
  entry.first_at = entry.first_at or leased.granted_at
  if outcome == RETRY and settlement.charged == 0 then
    entry.rests = math.min(entry.rests + 1, MOST_ATTEMPTS)
  else
    entry.attempts = math.min(entry.attempts + 1, MOST_ATTEMPTS)
  end
  local lane = {host = host, crawl = crawl, pool = leased.pool}
  if outcome == FETCHED then
    announce(crawl, entry, pack_record(ordinal, lane, pack_entry(entry)), settlement.page, batch.holder)
    return
  end
  host.failures = host.failures + 1
  if outcome == RETRY then
    count(crawl, 'retries', 1)
    if settlement.rest > 0 then rest(host, now + settlement.rest) end
    put_back(host, crawl, leased.pool, ordinal, entry, settlement.delay)
  else
    settlement.holder = batch.holder
    die(crawl, ordinal, entry, pack_record(ordinal, lane, pack_entry(entry)), settlement)
  end
end

local function settle(settlement, batch, leased)
  local host, crawl = host_of(leased.name), leased.crawl
  end_lease(batch, settlement.id)
  let_go(host, leased.landed)
  touch(host)
  if not flag(settlement.flags, SENT) then
    give_back(host, settlement.token, settlement.interval)
  elseif flag(settlement.flags, ANSWERED) then
    hear(host, flag(settlement.flags, BLOCKED))
  end
  if is_suspect(leased.entry) then hold_suspect(batch.holder, -1) end
  if not terms_of(crawl) then return false end  -- dropped
  count(crawl, 'leased', -1)
  conclude(settlement, batch, host, leased)
  bring_items(crawl, fingerprint_of(leased.entry), settlement.items)
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
  local batch = load_leased(token, several)
  batch.leased = {}
  for _, id in ipairs(several) do
    if batch.records[id] then
      local leased = unpack_leased(batch.records[id])
      batch.leased[id] = leased
      names[#names + 1] = leased.name
    end
  end
end
peek_hosts(names)

local accepted = {}
for i, settlement in ipairs(settlements) do
  local batch = batch_of(settlement.token)
  local there = batch.records[settlement.id]
  accepted[i] = there and settle(settlement, batch, batch.leased[settlement.id]) and '1' or '0'
end
save()
save_batches()
return table.concat(accepted)
