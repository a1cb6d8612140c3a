-- readmit.lua: requeue requests that a rule had filtered.
--
-- KEYS[1]  T:m
-- ARGV     crawl, rule, one frame: >H number, each 8 bytes fingerprint, s1 host, s1 pool, s4 ENTRY without the ordinal
-- returns  how many there were

local crawl, rule, frame, position, number = tonumber(ARGV[1]), ARGV[2], ARGV[3], 1
local filtered = tag .. READMITTABLE[rule] .. crawl
local readmitted = {}

if options_of(crawl) then
  number, position = parse('>H', frame, position)
  for _ = 1, number do
    local fp, name, pool, rest
    fp, name, pool, rest, position = parse('>c8Bc0Bc0Ic0', frame, position)
    if call('HEXISTS', filtered, fp) == 1 then
      meta.ordinal = meta.ordinal + 1
      requeue(host_of(name), crawl, pool, unpack_entry(pack('>I6', meta.ordinal) .. rest), 0)
      count(crawl, 'filtered', -1)
      count(crawl, 'filtered.' .. rule, -1)
      readmitted[#readmitted + 1] = fp
    end
  end
  save()
  -- After the requests wait: a script that is aborted in between requeues some of them twice, and loses none.
  call_with('HDEL', filtered, readmitted)
end
return #readmitted
