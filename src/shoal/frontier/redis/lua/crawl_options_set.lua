-- crawl_options_set.lua: store the options of a crawl; what is not passed stays unchanged.
--
-- KEYS[1]  T:m
-- ARGV     crawl, its name, 1 if it may be new here; then interval, burst, concurrency, crashes that kill, budget,
--          paused, and the rules for slowing down: threshold, reach, at least, window, floor, ceiling (each "":
--          unchanged); hosts that have another pace: >H number, each s1 host, >dHH interval, burst, concurrency
-- returns  1 if hosts have to be refreshed (refresh_hosts.lua), 0 if not, -1 if there is no such crawl

local crawl = tonumber(ARGV[1])
local DEFAULTS = {
  name = ARGV[2], interval = 0.5, burst = 1, concurrency = 4, max_crashes = 6, budget = 0, paused = 0, named = 0,
  rules = {threshold = 0.02, reach = 9, at_least = 20, window = 100, floor = 0.1, ceiling = 60},
}
local OPTION_NAMES = {'interval', 'burst', 'concurrency', 'max_crashes', 'budget', 'paused'}
local RULE_NAMES = {'threshold', 'reach', 'at_least', 'window', 'floor', 'ceiling'}
local PACE = {interval = true, burst = true, concurrency = true}

local known = options_of(crawl)
if not known and ARGV[3] ~= '1' then return -1 end
local options, changed = known or DEFAULTS, false

local function merge(into, names, first, concerns)
  for i, name in ipairs(names) do
    local given = tonumber(ARGV[first + i])
    if given and given ~= into[name] then
      into[name] = given
      changed = changed or concerns(name)
    end
  end
end

-- Replace the hosts that have another pace: add the new ones first, then delete the others.
local function name_hosts(frame)
  local key = tag .. ':hc:' .. crawl
  local others, named, number, position = {}, {}, parse('>H', frame)
  for _, host in ipairs(call('HKEYS', key)) do others[host] = true end
  for _ = 1, number do
    local host, interval, burst, concurrency
    host, interval, burst, concurrency, position = parse('>Bc0dHH', frame, position)
    others[host] = nil
    named[#named + 1], named[#named + 2] = host, pack('>dHH', interval, burst, concurrency)
  end
  call_with('HSET', key, named)
  local gone = {}
  for host in pairs(others) do gone[#gone + 1] = host end
  call_with('HDEL', key, gone)
  changed = changed or #named + #gone > 0
  options.named = #named > 0 and 1 or 0
end

if ARGV[16] ~= '' then name_hosts(ARGV[16]) end
merge(options, OPTION_NAMES, 3, function(name) return PACE[name] end)
merge(options.rules, RULE_NAMES, 9, function() return true end)
call('HSET', tag .. CRAWL_OPTIONS_KEY, crawl, pack_options(options))
if not known or not changed then return 0 end
call('HSET', KEYS[1], 'version', meta.version + 1)
return 1
