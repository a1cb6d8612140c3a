-- Extend, release or finish the pages of a consumer that are still its own.
-- ARGV: group, consumer, what to do, ms of silence that make a page free, ids. Answers the ids that were its own.

local pages = string.sub(KEYS[1], 1, -3) .. PAGES_KEY
local group, consumer, action, silence = unpack(ARGV, 1, 4)
local own = {}
for n = 5, #ARGV do
  local id = ARGV[n]
  local pending = redis.call('XPENDING', pages, group, id, id, 1)[1]
  if pending and pending[2] == consumer then
    own[#own + 1] = id
    if action == 'extend' then
      redis.call('XCLAIM', pages, group, consumer, 0, id, 'JUSTID')
    elseif action == 'release' then
      redis.call('XCLAIM', pages, group, consumer, 0, id, 'IDLE', silence, 'RETRYCOUNT', pending[4] - 1, 'JUSTID')
    else
      redis.call('XACK', pages, group, id)
      redis.call('XDEL', pages, id)
    end
  end
end
return own
