-- repair_leases.lua: restore the deadline and the head of every batch of leases, and delete the rest of empty batches.
--
-- KEYS[1]  T:m
-- ARGV     name that froze the shard; tokens
-- returns  the tokens that had a fault

local wrong = {}
for i = 2, #ARGV do
  local token, member = tonumber(ARGV[i]), ARGV[i]
  local batch = load_batch(token)
  local deadline, headed = call('ZSCORE', tag .. ':lx', member), call('HEXISTS', batch.key, '_') == 1
  local first, mixed = earliest(batch), false
  for _, record in pairs(batch.records) do mixed = mixed or deadline_of(record) ~= first end
  if first == math.huge then
    -- A batch that was settled since its token was read has neither.
    if call('DEL', batch.key) + call('ZREM', tag .. ':lx', member) > 0 then wrong[#wrong + 1] = member end
  elseif not headed or tonumber(deadline or 0) ~= first or mixed and not batch.mixed then
    call('HSET', batch.key, '_', (mixed and '1' or '0') .. batch.holder)
    call('ZADD', tag .. ':lx', first, member)
    wrong[#wrong + 1] = member
  end
end
return wrong
