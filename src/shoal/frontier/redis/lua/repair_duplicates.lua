-- repair_duplicates.lua: keep a request in one place that was found in several.
--
-- KEYS[1]  T:m
-- ARGV     for each place, the best first: its kind (`hash`, `sorted` or `list`), key, and member
-- returns  from how many it was removed
--
-- A request may have moved since it was found: something is removed only if the request really is in two places.
-- Hosts and counters are not updated; the caller repairs them next.

local PLACES = {
  hash = {'HEXISTS', 'HDEL'},
  sorted = {'ZSCORE', 'ZREM'},
  list = {'LPOS', 'LREM'},
}

local function remove(kind, key, member)
  if kind == 'list' then call('LREM', key, 1, member) else call(PLACES[kind][2], key, member) end
end

local kept, number = false, 0
for i = 1, #ARGV, 3 do
  local kind, key, member = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local found = call(PLACES[kind][1], key, member)
  if found and (kind ~= 'hash' or found == 1) then
    if kept then
      remove(kind, key, member)
      number = number + 1
    end
    kept = true
  end
end
return number
