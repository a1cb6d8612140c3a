-- idle_hosts.lua: hosts that nothing is left to be known of. A store that has crawled millions must not keep them all.
--
-- A host is forgotten when nothing waits there, nothing is out, nobody has set anything by hand, it does not rest, its
-- bucket is full again (at `tat`, and not when it could be asked next: that would give a spent burst back), and it was
-- last asked long ago. So it is as polite to begin with it as with one that was never heard of.

local IDLE_AFTER_S = 600  -- seconds; a change of pace counts from the latest request, and no pace is as slow
-- What a host has answered, and asks for in its robots.txt, is remembered until the latter has to be read again.
local KEEP_STATE_S = 90000
local SWEEP_EVERY_S, HOSTS_PER_SWEEP = 1, 100  -- seconds; hosts

-- Say whether a host can be forgotten, by its packed state.
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
  if flags == 0 and slow == 1 then return true end
  if last + KEEP_STATE_S > now then return false end
  if not has_flag(flags, HAS_OVERRIDES) then return true end
  local own = call('HGET', tag .. ':ho', name)
  local interval, burst, concurrency = -1, -1, -1
  if own then interval, burst, concurrency = parse('>dhhd', own) end
  return interval < 0 and burst < 0 and concurrency < 0
end

-- Forget those of some hosts that can be: names and packed states, by turns.
local function delete_idle(found)
  local gone = {}
  for i = 1, #found, 2 do
    if is_idle(found[i], found[i + 1]) then gone[#gone + 1] = found[i] end
  end
  if #gone == 0 then return end
  for _, key in ipairs({':hw', ':ho', ':h'}) do call_with('HDEL', tag .. key, gone) end
end

-- Look at the next few hosts, once a second in every shard, whoever asks it for work.
local function sweep_idle_hosts()
  if meta.swept > now then return end
  local cursor, found = unpack(call('HSCAN', tag .. ':h', call('HGET', KEYS[1], 'sweep') or '0', 'COUNT', HOSTS_PER_SWEEP))
  call('HSET', KEYS[1], 'sweep', cursor, 'swept', now + SWEEP_EVERY_S)
  delete_idle(found)
end
