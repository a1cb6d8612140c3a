-- idle_hosts.lua: delete hosts that have no state worth keeping. A store that has crawled millions must not keep all.
--
-- A host is deleted when nothing is waiting or in flight there, the operator has set nothing, it is not resting, its
-- bucket is full again (at `tat`, not when the next request is due: that would refund a spent burst), and the last
-- request was long ago. So starting it anew is as polite as with a host that was never asked.

local IDLE_AFTER_S = 600  -- a change of pace counts from the latest request, and no pace is this slow
-- Responses and the Crawl-delay of a host are kept until its robots.txt has to be fetched again.
local KEEP_STATE_S = 90000
local SWEEP_EVERY_S, HOSTS_PER_SWEEP = 1, 100

-- Return whether a host can be deleted, from its packed state.
local function is_idle(name, packed)
  local tat, last, rest_until, _, _, slow, _, _, inflight, _, _, _, flags, number, position = parse(HOST, packed)
  if inflight > 0 or flags % 2 == PAUSED or tat > now or rest_until > now or last + IDLE_AFTER_S > now then
    return false
  end
  for _ = 1, number do
    local _, lane_flags, band
    _, lane_flags, band, _, _, _, position = parse(LANE, packed, position)
    if band ~= EMPTY or has_flag(lane_flags, SPILLED) or has_flag(lane_flags, SCHEDULED) then return false end
  end
  if flags % HAS_HEAD_START == 0 and slow == 1 then return true end
  if last + KEEP_STATE_S > now then return false end
  if not has_flag(flags, HAS_OVERRIDES) then return true end
  local own = call('HGET', tag .. ':ho', name)
  local interval, burst, concurrency = -1, -1, -1
  if own then interval, burst, concurrency = parse('>dhhd', own) end
  return interval < 0 and burst < 0 and concurrency < 0
end

-- Delete the idle ones of some hosts: names and packed states, alternating.
local function delete_idle(found)
  local gone = {}
  for i = 1, #found, 2 do
    if is_idle(found[i], found[i + 1]) then gone[#gone + 1] = found[i] end
  end
  if #gone == 0 then return end
  for _, key in ipairs({':hw', ':ho', ':h'}) do call_with('HDEL', tag .. key, gone) end
end

-- Check the next few hosts, once a second per shard, as part of any lease call.
local function sweep_idle_hosts()
  if meta.swept > now then return end
  local from = call('HGET', KEYS[1], 'sweep') or '0'
  local scanned = redis.pcall('HSCAN', tag .. ':h', from, 'COUNT', HOSTS_PER_SWEEP)
  -- A damaged cursor must not end the leases of every crawl of the shard.
  if scanned.err then scanned = call('HSCAN', tag .. ':h', '0', 'COUNT', HOSTS_PER_SWEEP) end
  local cursor, found = unpack(scanned)
  call('HSET', KEYS[1], 'sweep', cursor, 'swept', now + SWEEP_EVERY_S)
  delete_idle(found)
end
