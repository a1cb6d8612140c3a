-- seen.lua: which fingerprints a crawl has met. A fragment of the scripts that add.
--
-- T:sm:<crawl>      hash   size; buckets (exact); bits, hashes (Bloom, decided when the crawl is created)
-- T:s:<crawl>:<n>   set    fingerprints of bucket n, all of them integers: 8 bytes a member ("intset")
-- T:sb:<crawl>      string the bits of a Bloom filter
--
-- Exact mode. A server turns an intset of more than 512 members into a hash table of six times the memory, so
-- buckets stay small by linear hashing: when the mean goes over SEEN_MEAN, the next bucket in line is split in
-- two. Growing costs every call a little and none of them much; nothing has to be sized in advance.
--
-- A script that dies half way leaves no hole: a split copies, then says so, then removes. The size may lag
-- behind by the fingerprints of that call, which only delays a split.
--
-- Fingerprints are decimal strings of 63-bit numbers. A double holds their first 53 bits, rounded the same way
-- by every server: as good a hash as the whole.

-- Just before its turn to be split a bucket holds twice the mean: 400, and 512 is more than five standard
-- deviations away.
local SEEN_MEAN = 200
local SEEN_SPLITS = 8  -- per call; 0.1 ms each

local seen_known = {}  -- crawl -> its seen-set as far as this call has come
local seen_splits = 0  -- made by this call

local function seen_hash(fp)
  local rounded = tonumber(fp)
  return (rounded - rounded % 1024) / 1024
end

local function seen_open(tag, crawl)
  local meta = tag .. ':sm:' .. crawl
  local size, buckets, bits, hashes = unpack(redis.call('HMGET', meta, 'size', 'buckets', 'bits', 'hashes'))
  local seen = {meta = meta, size = tonumber(size) or 0, grown = false}
  if bits then
    seen.filter, seen.bits, seen.hashes = tag .. ':sb:' .. crawl, tonumber(bits), tonumber(hashes)
  else
    seen.prefix, seen.buckets, seen.whole = tag .. ':s:' .. crawl .. ':', tonumber(buckets) or 1, 1
    while seen.whole * 2 <= seen.buckets do seen.whole = seen.whole * 2 end
  end
  seen_known[crawl] = seen
  return seen
end

-- Split the next bucket in line: number `buckets - whole` gives what belongs to the new number `buckets`.
local function seen_split(seen)
  local from, to, moved = seen.prefix .. (seen.buckets - seen.whole), seen.prefix .. seen.buckets, {}
  for _, fp in ipairs(redis.call('SMEMBERS', from)) do
    if seen_hash(fp) % (2 * seen.whole) == seen.buckets then moved[#moved + 1] = fp end
  end
  if #moved > 0 then redis.call('SADD', to, unpack(moved)) end
  seen.buckets = seen.buckets + 1
  redis.call('HSET', seen.meta, 'buckets', seen.buckets)
  if #moved > 0 then redis.call('SREM', from, unpack(moved)) end
  if seen.buckets == 2 * seen.whole then seen.whole = seen.buckets end
end

-- Name the bucket of a fingerprint: the one that a split will move it to, if that has been.
local function seen_bucket(seen, fp)
  local bucket = seen_hash(fp) % (2 * seen.whole)
  if bucket >= seen.buckets then bucket = bucket - seen.whole end
  return seen.prefix .. string.format('%d', bucket)  -- Lua's own way to print a number takes twice as long
end

-- Do the same to all bits of a fingerprint, in one command; say whether all of them had been set.
local function seen_bits(seen, fp, verb, value)
  local high, low = tonumber(string.sub(fp, 1, -10)) or 0, tonumber(string.sub(fp, -9))
  local command = {'BITFIELD', seen.filter}
  for i = 0, seen.hashes - 1 do  -- enhanced double hashing
    command[#command + 1] = verb
    command[#command + 1] = 'u1'
    command[#command + 1] = (high + i * low + (i * i * i - i) / 6) % seen.bits
    command[#command + 1] = value
  end
  for _, bit in ipairs(redis.call(unpack(command))) do
    if bit == 0 then return false end
  end
  return true
end

-- Say whether a fingerprint was taken in; and where it is or would be, for `seen_add`.
local function seen_has(tag, crawl, fp)
  local seen = seen_known[crawl] or seen_open(tag, crawl)
  if seen.bits then return seen_bits(seen, fp, 'GET') end
  local bucket = seen_bucket(seen, fp)
  return redis.call('SISMEMBER', bucket, fp) == 1, bucket
end

-- Take a fingerprint in that `seen_has` has not found; its place, if known, need not be found again.
local function seen_add(tag, crawl, fp, bucket)
  local seen = seen_known[crawl] or seen_open(tag, crawl)
  if seen.bits then
    seen_bits(seen, fp, 'SET', 1)
  else
    if not bucket or seen_splits > 0 then bucket = seen_bucket(seen, fp) end
    redis.call('SADD', bucket, fp)
  end
  seen.size, seen.grown = seen.size + 1, true
  if seen.buckets and seen.size > SEEN_MEAN * seen.buckets and seen_splits < SEEN_SPLITS then
    seen_split(seen)
    seen_splits = seen_splits + 1
  end
end

-- Write down how much this call has added; to be called once, after the last `seen_add`.
local function seen_save()
  for _, seen in pairs(seen_known) do
    if seen.grown then redis.call('HSET', seen.meta, 'size', seen.size) end
  end
end

-- Forget a crawl's seen-set, at most `limit` buckets at a time; return how many are left.
local function seen_drop(tag, crawl, limit)
  local seen = seen_known[crawl] or seen_open(tag, crawl)
  seen_known[crawl] = nil
  local left = math.max((seen.buckets or 0) - limit, 0)
  for bucket = left, (seen.buckets or 0) - 1 do redis.call('UNLINK', seen.prefix .. bucket) end
  if left > 0 then
    redis.call('HSET', seen.meta, 'buckets', left)
  else
    redis.call('UNLINK', seen.meta, tag .. ':sb:' .. crawl)
  end
  return left
end
