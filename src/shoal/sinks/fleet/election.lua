-- Elect a worker as the writer of an output for a term, renew its term, or end it.
-- ARGV: number of the crawl, output, holder, term in ms (0: end it), node ('': any), an id for the output if it is new.
-- Returns ms to wait (0: the holder is the writer; -1: the output belongs to another node; -2: the crawl was deleted)
-- and the id of the output, or the name of the other node.

local tag = string.sub(KEYS[1], 1, -3)
local writers = tag .. WRITER_KEY .. ARGV[1]
-- A writer that does not know yet that the crawl was deleted must not create keys for it.
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
  -- The server's clock was set back: limit the term of the current holder to one term from now.
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
