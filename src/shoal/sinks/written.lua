#!lua flags=allow-oom
-- Remember how far an output has come in this shard, and drop what every output of the crawl has.
-- ARGV: number of the crawl, output, position, all outputs of the crawl. Positions never go back.
-- A full server has to take this: it is what makes room.

local tag = string.sub(KEYS[1], 1, -3)
local marks = tag .. ':written:' .. ARGV[1]

local function halves(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function before(a, b)
  local a_ms, a_seq = halves(a)
  local b_ms, b_seq = halves(b)
  return a_ms < b_ms or (a_ms == b_ms and a_seq < b_seq)
end

local known = redis.call('HGET', marks, ARGV[2])
if not known or before(known, ARGV[3]) then
  redis.call('HSET', marks, ARGV[2], ARGV[3])
end

local lowest = nil
for n = 4, #ARGV do
  local position = redis.call('HGET', marks, ARGV[n])
  if not position then
    return 0  -- an output that has not begun wants everything
  end
  if not lowest or before(position, lowest) then
    lowest = position
  end
end
local ms, seq = string.match(lowest, '^(%d+)-(%d+)$')
return redis.call('XTRIM', tag .. ':items:' .. ARGV[1], 'MINID', string.format('%s-%.0f', ms, tonumber(seq) + 1))
