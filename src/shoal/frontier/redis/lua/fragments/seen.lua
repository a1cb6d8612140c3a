-- seen.lua: the fingerprints that a crawl has seen.
--
-- T:sm:<crawl>      hash   size; buckets (exact); bits, hashes (Bloom, fixed when the crawl is created)
-- T:s:<crawl>:<n>   set    fingerprints of bucket n, all of them integers: 8 bytes per member ("intset")
-- T:s:<crawl>:<n>/<level>   set    bucket n as it was when it was too large to be split
-- T:so:<crawl>      set    the names `<n>/<level>` of those
-- T:sb:<crawl>      string the bits of a Bloom filter
--
-- Exact mode. A server turns an intset of more than 512 members into a hash table of six times the memory, so
-- buckets are kept small by linear hashing: when the mean exceeds SEEN_MEAN, the next bucket in order is split in
-- two. Growth costs every call a little and none of them much; nothing has to be sized in advance.
--
-- An aborted script loses nothing: a split copies, then records itself, then removes; and buckets are split after
-- everything else, so that all members that a split has copied are waiting, too. The size may lag behind by the
-- fingerprints of that call, which only delays a split.
--
-- A bucket with more than SEEN_MAX members is not split: that would take the server too long. Fingerprints under a
-- key never fill one like that; those of crawls without a key may have been chosen by a site. Such a bucket is renamed,
-- which takes no time, and stays searchable: `level` is the number of buckets that its number is a remainder of.
--
-- Fingerprints are decimal strings of 63-bit numbers, which Lua numbers cannot hold. Their hash, 31 bits that the
-- caller passes, is their first bits reversed: so members of one bucket share their first bits, and a split moves the
-- larger ones.

-- Just before it is split a bucket holds twice the mean: 400, and 512 is more than five standard deviations away.
local SEEN_MEAN = 200
local SEEN_SPLITS = 8  -- per call; 0.1 ms each
local SEEN_MAX = 2000  -- 1 ms to split

local seen_cache = {}  -- crawl -> its seen-set, with the changes of this call

-- Return a crawl's seen-set.
local function seen_of(tag, crawl)
  if seen_cache[crawl] then return seen_cache[crawl] end
  local meta = tag .. ':sm:' .. crawl
  local size, buckets, bits, hashes, large = unpack(
    call('HMGET', meta, 'size', 'buckets', 'bits', 'hashes', 'large'))
  local seen = {meta = meta, size = tonumber(size) or 0, grown = false, waiting = {}}
  if bits then
    seen.filter, seen.bits, seen.hashes = tag .. ':sb:' .. crawl, tonumber(bits), tonumber(hashes)
  else
    seen.prefix, seen.buckets, seen.whole = tag .. ':s:' .. crawl .. ':', tonumber(buckets) or 1, 1
    seen.names = tag .. ':so:' .. crawl
    while seen.whole * 2 <= seen.buckets do seen.whole = seen.whole * 2 end
    if large then
      seen.large = {}
      for _, name in ipairs(call('SMEMBERS', seen.names)) do seen.large[name] = true end
    end
  end
  seen_cache[crawl] = seen
  return seen
end

-- Return the smallest fingerprint of a new bucket: its number reversed, as the first bits.
local function seen_smallest(bucket)
  local smallest, bit = 0, 2 ^ 62
  while bucket > 0 do
    if bucket % 2 == 1 then smallest = smallest + bit end
    bucket, bit = math.floor(bucket / 2), bit / 2
  end
  return format('%.0f', smallest)
end

-- Put a bucket aside that is too large to be split.
local function seen_put_aside(seen, bucket)
  local name = bucket .. '/' .. seen.whole
  seen.large = seen.large or {}
  seen.large[name] = true
  call('HSET', seen.meta, 'large', 1)
  call('SADD', seen.names, name)  -- first: a name without a set does no harm
  if call('EXISTS', seen.prefix .. name) == 0 then
    call('RENAME', seen.prefix .. bucket, seen.prefix .. name)
  else  -- a script was aborted after it had put the bucket aside
    call('SUNIONSTORE', seen.prefix .. name, seen.prefix .. name, seen.prefix .. bucket)
    call('UNLINK', seen.prefix .. bucket)
  end
end

-- Return whether a bucket that was put aside has a fingerprint.
local function seen_in_large(seen, fp, hash)
  local level = 1
  while level <= seen.whole do
    local name = format('%d/%d', hash % level, level)
    if seen.large[name] and call('SISMEMBER', seen.prefix .. name, fp) == 1 then return true end
    level = level * 2
  end
  return false
end

-- Split the next bucket: part of bucket `buckets - whole` moves to the new bucket `buckets`.
local function seen_split(seen)
  local bucket = seen.buckets - seen.whole
  local from, to = seen.prefix .. bucket, seen.prefix .. seen.buckets
  if call('SCARD', from) > SEEN_MAX then seen_put_aside(seen, bucket) end
  local members, moved, smallest = call('SMEMBERS', from), {}, seen_smallest(seen.buckets)
  local digits = #smallest
  for i = 1, #members do
    local fp = members[i]
    if #fp > digits or #fp == digits and fp >= smallest then moved[#moved + 1] = fp end
  end
  if #moved > 0 then call('SADD', to, unpack(moved)) end  -- at most SEEN_MAX: Lua's stack holds about 8,000
  seen.buckets = seen.buckets + 1
  call('HSET', seen.meta, 'buckets', seen.buckets)
  if #moved > 0 then call('SREM', from, unpack(moved)) end
  if seen.buckets == 2 * seen.whole then seen.whole = seen.buckets end
end

-- Return the key of a fingerprint's bucket, by the splits so far.
local function seen_bucket(seen, hash)
  local bucket = hash % (2 * seen.whole)
  if bucket >= seen.buckets then bucket = bucket - seen.whole end
  return seen.prefix .. format('%d', bucket)  -- converting by `..` takes twice as long
end

-- Get or set all bits of a fingerprint with one command; return whether all of them were set.
local function seen_bits(seen, fp, verb, value)
  local high, low = tonumber(sub(fp, 1, -10)) or 0, tonumber(sub(fp, -9))
  local command = {'BITFIELD', seen.filter}
  for i = 0, seen.hashes - 1 do  -- enhanced double hashing
    command[#command + 1] = verb
    command[#command + 1] = 'u1'
    command[#command + 1] = (high + i * low + (i * i * i - i) / 6) % seen.bits
    command[#command + 1] = value
  end
  for _, bit in ipairs(call(unpack(command))) do
    if bit == 0 then return false end
  end
  return true
end

-- Return whether a fingerprint is in the seen-set.
local function seen_has(seen, fp, hash)
  if seen.bits then return seen.waiting[fp] or seen_bits(seen, fp, 'GET') end
  if seen.large and seen_in_large(seen, fp, hash) then return true end
  return call('SISMEMBER', seen_bucket(seen, hash), fp) == 1
end

-- Add a fingerprint; return whether it is new.
local function seen_add(seen, fp, hash)
  if seen.bits then
    if seen_has(seen, fp) then return false end
    seen.waiting[fp] = true
  elseif seen.large and seen_in_large(seen, fp, hash) then
    return false
  elseif call('SADD', seen_bucket(seen, hash), fp) == 0 then
    return false
  end
  seen.size, seen.grown = seen.size + 1, true
  return true
end

-- Undo `seen_add`, in the current bucket of the fingerprint.
local function seen_remove(seen, fp, hash)
  if seen.buckets then call('SREM', seen_bucket(seen, hash), fp) end
end

-- Split some of the buckets that have become too large.
local function seen_grow()
  local splits = 0
  for _, seen in pairs(seen_cache) do
    while seen.grown and seen.buckets and seen.size > SEEN_MEAN * seen.buckets and splits < SEEN_SPLITS do
      seen_split(seen)
      splits = splits + 1
    end
  end
end

-- Write the new size, and the bits of a filter, from which nothing can be removed. To be called last.
local function seen_save()
  for _, seen in pairs(seen_cache) do
    for fp in pairs(seen.waiting) do seen_bits(seen, fp, 'SET', 1) end
    if seen.grown then call('HSET', seen.meta, 'size', seen.size) end
  end
end

-- Delete a crawl's seen-set, at most `limit` buckets per call; return how many are left.
local function seen_drop(tag, crawl, limit)
  local seen = seen_of(tag, crawl)
  seen_cache[crawl] = nil
  local left = math.max((seen.buckets or 0) - limit, 0)
  for bucket = left, (seen.buckets or 0) - 1 do call('UNLINK', seen.prefix .. bucket) end
  if left > 0 then
    call('HSET', seen.meta, 'buckets', left)
  else
    for name in pairs(seen.large or {}) do call('UNLINK', seen.prefix .. name) end
    call('UNLINK', seen.meta, tag .. ':so:' .. crawl, tag .. ':sb:' .. crawl)
  end
  return left
end
