-- Make a holder the writer of an output, or keep it so, for a time; or let go.
-- ARGV: number of the crawl, output, holder, ms (0: let go), node ('': any), a name for the output if it is new.
-- Answers ms to wait (0: the holder is the writer; -1: it belongs to another node; -2: the crawl was dropped) and the
-- output's name.

local tag = string.sub(KEYS[1], 1, -3)
local writers = tag .. WRITER_KEY .. ARGV[1]
-- A writer that does not know it yet must not leave anything of a crawl that was swept away.
if redis.call('HEXISTS', tag .. CRAWL_OPTIONS_KEY, ARGV[1]) == 0 then
  return {-2, ''}
end
local NODE, NAME, HOLDER, DEADLINE = 'node ' .. ARGV[2], 'name ' .. ARGV[2], 'holder ' .. ARGV[2], 'until ' .. ARGV[2]
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)

if ARGV[5] ~= '' then
  redis.call('HSETNX', writers, NODE, ARGV[5])
  local node = redis.call('HGET', writers, NODE)
  if node ~= ARGV[5] then
    return {-1, node}
  end
end
redis.call('HSETNX', writers, NAME, ARGV[6])
local name, holder, deadline = unpack(redis.call('HMGET', writers, NAME, HOLDER, DEADLINE))
local left, term = (tonumber(deadline) or 0) - now, tonumber(ARGV[4])
if term > 0 and left > term then
  -- The server's clock was set back. Whoever holds it has one more term to say so, and not until time has caught up.
  left = term
  redis.call('HSET', writers, DEADLINE, string.format('%.0f', now + term))
end
if holder and holder ~= ARGV[3] and left > 0 then
  return {left, name}
end
if term > 0 then
  redis.call('HSET', writers, HOLDER, ARGV[3], DEADLINE, string.format('%.0f', now + term))
else
  redis.call('HDEL', writers, HOLDER, DEADLINE)
end
return {0, name}
