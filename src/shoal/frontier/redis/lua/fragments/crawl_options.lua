-- crawl_options.lua: what a crawl asks for. TERMS of keys.py, kept in every shard.

local TERMS = '>dHHHIBBddHHddBc0'
local terms_known = {}  -- crawl -> its terms; false: it was dropped

local function unpack_terms(packed)
  local terms = {rules = {}}
  local rules = terms.rules
  terms.interval, terms.burst, terms.concurrency, terms.max_crashes, terms.budget, terms.paused,
    terms.named, rules.threshold, rules.reach, rules.at_least, rules.window, rules.floor, rules.ceiling, terms.name =
    parse(TERMS, packed)
  return terms
end

local function pack_terms(terms)
  local rules = terms.rules
  return pack(TERMS, terms.interval, terms.burst, terms.concurrency, terms.max_crashes, terms.budget,
    terms.paused, terms.named, rules.threshold, rules.reach, rules.at_least, rules.window, rules.floor, rules.ceiling,
    #terms.name, terms.name)
end

-- Give interval, burst and concurrency that a crawl asks for on a host.
local function pace_of(crawl, terms, host)
  local packed = terms.named == 1 and call('HGET', tag .. ':hc:' .. crawl, host)
  if packed then return parse('>dHH', packed) end
  return terms.interval, terms.burst, terms.concurrency
end

local function terms_of(crawl)
  local terms = terms_known[crawl]
  if terms == nil then
    local packed = call('HGET', tag .. ':c', crawl)
    terms = packed and unpack_terms(packed)
    terms_known[crawl] = terms
  end
  return terms
end
