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
  local settlement = {
    token = token, id = id, outcome = outcome, flags = flags, interval = interval, items = '', leased = false,
  }
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
local function conclude(settlement, batch, leased)
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
    put_back(host_of(leased.name), crawl, leased.pool, ordinal, entry, settlement.delay)
    return
  end
  entry.first_at = entry.first_at or leased.granted_at
  if outcome == RETRY and settlement.charged == 0 then
    entry.rests = math.min(entry.rests + 1, MOST_ATTEMPTS)
  else
    entry.attempts = math.min(entry.attempts + 1, MOST_ATTEMPTS)
  end
  if outcome == FETCHED then
    local record = pack_record(ordinal, crawl, leased.name, leased.pool, pack_entry(entry))
    announce(crawl, entry, record, settlement.page, batch.holder)
    return
  end
  local host = host_of(leased.name)
  host.failures = host.failures + 1
  if outcome == RETRY then
    count(crawl, 'retries', 1)
    if settlement.rest > 0 then rest(host, now + settlement.rest) end
    put_back(host, crawl, leased.pool, ordinal, entry, settlement.delay)
  else
    settlement.holder = batch.holder
    local record = pack_record(ordinal, crawl, leased.name, leased.pool, pack_entry(entry))
    die(crawl, ordinal, entry, record, settlement)
  end
end

local PLAIN = {[DONE] = true, [FETCHED] = true, [GONE] = true, [FILTERED] = true}  -- no failure of the host

-- Tell the host that its request has ended.
local function release(settlement, leased)
  local flags = settlement.flags
  local plain = flags == SENT + ANSWERED and PLAIN[settlement.outcome]
  if plain and patch_answered(leased.name, leased.landed) then return end
  local host = host_of(leased.name)
  let_go(host, leased.landed)
  touch(host)
  if not flag(flags, SENT) then
    give_back(host, settlement.token, settlement.interval)
  elseif flag(flags, ANSWERED) then
    hear(host, flag(flags, BLOCKED))
  end
end

local function settle(settlement, batch, leased)
  local crawl = leased.crawl
  end_lease(batch, settlement.id)
  release(settlement, leased)
  if is_suspect(leased.entry) then hold_suspect(batch.holder, -1) end
  if not terms_of(crawl) then return false end  -- dropped
  count(crawl, 'leased', -1)
  conclude(settlement, batch, leased)
  bring_items(crawl, fingerprint_of(leased.entry), settlement.items)
  return true
end

local settlements, ids, position, number = {}, {}, 1
number, position = struct.unpack('>H', ARGV[1], position)
for i = 1, number do
  settlements[i], position = read_settlement(ARGV[1], position)
  push(ids, settlements[i].token, settlements[i].id)
end

for token, several in pairs(ids) do load_leased(token, several) end
local names = {}
for i = 1, number do
  local settlement = settlements[i]
  local record = batches[settlement.token].records[settlement.id]
  if record then
    settlement.leased = unpack_leased(record)
    names[#names + 1] = settlement.leased.name
  end
end
peek_hosts(names)

local accepted = {}
for i = 1, number do
  local settlement = settlements[i]
  local batch = batches[settlement.token]
  local there = batch.records[settlement.id]  -- one that is settled twice in a call is gone the second time
  accepted[i] = there and settle(settlement, batch, settlement.leased) and '1' or '0'
end
save()
save_batches()
return table.concat(accepted)
