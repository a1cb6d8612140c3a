-- extend.lua: move deadlines of leases to later, never to earlier.
--
-- KEYS[1]  T:m
-- ARGV     seconds, one frame of >dc12 token and id, repeated; landed requests (leases.lua)
-- returns  the new deadline of each, "" if the lease is lost; the leases that were reclaimed

local seconds, frame = tonumber(ARGV[1]), ARGV[2]
local MAX_CHORES = 64

mark_landed(ARGV[3])
local lost = reclaim(MAX_CHORES)
save()
save_batches()

local function extend_batch(token, ids)
  local batch, changed, deadlines = load_batch(token), {}, {}
  for _, id in ipairs(ids) do
    local record = batch.records[id]
    if record then
      local leased_until = math.max(deadline_of(record), now + seconds)
      deadlines[id] = leased_until
      batch.records[id] = pack('>d', leased_until) .. sub(record, 9)
      changed[#changed + 1], changed[#changed + 2] = id, batch.records[id]
    end
  end
  if #changed == 0 then return deadlines end
  local first, mixed = earliest(batch), '0'
  for _, record in pairs(batch.records) do
    if deadline_of(record) ~= first then mixed = '1' end
  end
  call_with('HSET', batch.key, changed)
  call('HSET', batch.key, '_', mixed .. batch.holder)
  call('ZADD', tag .. ':lx', first, format('%.0f', token))
  return deadlines
end

local order, ids = {}, {}
for position = 1, #frame, 20 do
  local token, id = parse('>dc12', frame, position)
  order[#order + 1] = {token = token, id = id}
  push(ids, token, id)
end
local deadlines = {}
for token, several in pairs(ids) do deadlines[token] = extend_batch(token, several) end
local answers = {}
for i, one in ipairs(order) do
  local leased_until = deadlines[one.token][one.id]
  answers[i] = leased_until and format_double(server_time(leased_until)) or ''
end
return {answers, lost}
