-- Replace records about exits, except those that another process has changed.
--
-- KEYS[1]  the fleet's own key, which names the shard
-- ARGV     key of the records; then for each of them: field, the record as it was read, the new one; empty: none
-- returns  for each of them 1, or 0 if the record is another one by now

local replaced = {}
for at = 2, #ARGV, 3 do
  local field, before, after = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local found = redis.call('HGET', ARGV[1], field) or ''
  if found ~= before then
    replaced[#replaced + 1] = 0
  else
    if after == '' then
      redis.call('HDEL', ARGV[1], field)
    else
      redis.call('HSET', ARGV[1], field, after)
    end
    replaced[#replaced + 1] = 1
  end
end
return replaced
