-- Grant a worker a share of the pages that a crawl may still get.
--
-- KEYS[1]  the shard's own key; the hash is <tag>:allowance:<crawl>: worker -> pages it may have in progress and until
--          when (ms), and `let go` -> pages that all workers together have finished or released
-- ARGV     number of the crawl, worker, pages it has in progress, pages it wants besides, ms that its share is valid,
--          page limit of the crawl, pages that it has, value of `let go` before those were counted
-- returns  how many pages the worker may take besides
--
-- A page that a worker has released since the count may be one that the crawl has: it counts as one.

local parts = string.sub(KEYS[1], 1, -3) .. PAGE_QUOTA_KEY .. ARGV[1]
local worker, held, wanted, ttl = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)

local all = redis.call('HGETALL', parts)
local let_go, others, mine, gone = 0, 0, 0, {}
for at = 1, #all, 2 do
  local name, value = all[at], all[at + 1]
  if name == 'let go' then
    let_go = let_go + value
  else
    local pages, deadline = string.match(value, '^(%d+) (%d+)$')
    if name == worker then
      mine = tonumber(pages)
    elseif tonumber(deadline) > now then
      others = others + pages
    else
      -- Its leases have run out before. What it had settled until then was counted or not: that is unknown.
      let_go = let_go + pages
      gone[#gone + 1] = name
    end
  end
end

local since = math.abs(let_go - ARGV[8])
local free = ARGV[6] - ARGV[7] - since - others - held
local granted = math.max(0, math.min(wanted, free))
if held + granted > 0 then
  redis.call('HSET', parts, worker, string.format('%d %.0f', held + granted, now + ttl))
else
  redis.call('HDEL', parts, worker)
end
redis.call('HSET', parts, 'let go', string.format('%.0f', let_go + math.max(0, mine - held)))
for first = 1, #gone, 2000 do  -- Lua's stack holds about 8,000
  redis.call('HDEL', parts, unpack(gone, first, math.min(first + 1999, #gone)))
end
redis.call('PEXPIRE', parts, 2 * ttl)
return granted
