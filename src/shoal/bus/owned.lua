-- Extend, release or finish the pages that still belong to a consumer.
-- ARGV: group, consumer, action, deadline in ms, ids. Returns the ids that belonged to it.

local pages = string.sub(KEYS[1], 1, -3) .. PAGES_KEY
local group, consumer, action, deadline_ms = unpack(ARGV, 1, 4)
local own = {}
for n = 5, #ARGV do
  local id = ARGV[n]
  -- A server that has lost its data has no such group: then no page belongs to anyone.
  local pending = redis.pcall('XPENDING', pages, group, id, id, 1)[1]
  if pending and pending[2] == consumer then
    own[#own + 1] = id
    if action == 'extend' then
      redis.call('XCLAIM', pages, group, consumer, 0, id, 'JUSTID')
    elseif action == 'release' then
      redis.call('XCLAIM', pages, group, consumer, 0, id, 'IDLE', deadline_ms, 'RETRYCOUNT', pending[4] - 1, 'JUSTID')
    else
      redis.call('XACK', pages, group, id)
      redis.call('XDEL', pages, id)
    end
  end
end
return own
