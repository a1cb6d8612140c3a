-- Remember how far an output has come in this shard, and drop what every output of the crawl has.
-- ARGV: number of the crawl, output, position, an entry that is about to be written ('': none), all outputs of
-- the crawl. Positions never go back. Answers the last entry of the stream; 0-0 if it has none, or if the one that
-- is about to be written is not there any more.
-- A full server has to take this: it is what makes room.

local tag = string.sub(KEYS[1], 1, -3)
-- Nothing is left of a crawl that was dropped, and nothing must come back.
if redis.call('HEXISTS', tag .. CRAWL_OPTIONS_KEY, ARGV[1]) == 0 then
  return '0-0'
end
local items = tag .. ITEMS_KEY .. ARGV[1]
local marks = tag .. WRITTEN_KEY .. ARGV[1]

local function halves(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function before(a, b)
  local a_ms, a_seq = halves(a)
  local b_ms, b_seq = halves(b)
  return a_ms < b_ms or (a_ms == b_ms and a_seq < b_seq)
end

-- Written even if it says nothing new: whoever waits for replicas or a disk waits for what it has written itself.
local known = redis.call('HGET', marks, ARGV[2])
redis.call('HSET', marks, ARGV[2], known and before(ARGV[3], known) and known or ARGV[3])

local lowest = nil
for n = 5, #ARGV do
  local position = redis.call('HGET', marks, ARGV[n])
  if not position then
    lowest = '0-0'  -- an output that has not begun wants everything
  elseif not lowest or before(position, lowest) then
    lowest = position
  end
end
local ms, seq = string.match(lowest, '^(%d+)-(%d+)$')
redis.call('XTRIM', items, 'MINID', string.format('%s-%.0f', ms, tonumber(seq) + 1))

if ARGV[4] ~= '' and #redis.call('XRANGE', items, ARGV[4], ARGV[4]) == 0 then
  return '0-0'
end
local last = redis.call('XREVRANGE', items, '+', '-', 'COUNT', 1)[1]
return last and last[1] or '0-0'
