-- crawl_options.lua: the options of a crawl. CRAWL_OPTIONS of keys.py, stored in every shard.

local CRAWL_OPTIONS = '>dHHHIBBddHHddBc0'
local options_cache = {}  -- crawl -> its options; false: it was deleted

local function unpack_options(packed)
  local options = {rules = {}}
  local rules = options.rules
  options.interval, options.burst, options.concurrency, options.max_crashes, options.budget, options.paused,
    options.named, rules.threshold, rules.reach, rules.at_least, rules.window, rules.floor, rules.ceiling,
    options.name = parse(CRAWL_OPTIONS, packed)
  return options
end

local function pack_options(options)
  local rules = options.rules
  return pack(CRAWL_OPTIONS, options.interval, options.burst, options.concurrency, options.max_crashes, options.budget,
    options.paused, options.named, rules.threshold, rules.reach, rules.at_least, rules.window, rules.floor,
    rules.ceiling, #options.name, options.name)
end

-- Return interval, burst and concurrency of a crawl on a host.
local function pace_of(crawl, options, host)
  local packed = options.named == 1 and call('HGET', tag .. ':hc:' .. crawl, host)
  if packed then return parse('>dHH', packed) end
  return options.interval, options.burst, options.concurrency
end

local function options_of(crawl)
  local options = options_cache[crawl]
  if options == nil then
    local packed = call('HGET', tag .. CRAWL_OPTIONS_KEY, crawl)
    options = packed and unpack_options(packed)
    options_cache[crawl] = options
  end
  return options
end
