#!lua flags=allow-oom
-- Make a holder the writer of an output, or keep it so, for a time; or let go.
-- ARGV: number of the crawl, output, holder, ms (0: let go), node ('': any), a name for the output if it is new.
-- Answers ms to wait (0: the holder is the writer; -1: it belongs to another node) and the output's name.

local key = string.sub(KEYS[1], 1, -3) .. ':writer:' .. ARGV[1] .. ':' .. ARGV[2]
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)

if ARGV[5] ~= '' and redis.call('HSETNX', key, 'node', ARGV[5]) == 0
    and redis.call('HGET', key, 'node') ~= ARGV[5] then
  return {-1, redis.call('HGET', key, 'node')}
end
redis.call('HSETNX', key, 'name', ARGV[6])
local name = redis.call('HGET', key, 'name')
local holder, deadline = unpack(redis.call('HMGET', key, 'holder', 'until'))
local left = (tonumber(deadline) or 0) - now
if holder and holder ~= ARGV[3] and left > 0 then
  return {left, name}
end
if tonumber(ARGV[4]) > 0 then
  redis.call('HSET', key, 'holder', ARGV[3], 'until', string.format('%.0f', now + ARGV[4]))
else
  redis.call('HDEL', key, 'holder', 'until')
end
return {0, name}
