-- replay.lua: requeue dead letters with their attempts reset.
--
-- KEYS[1]  T:m
-- ARGV     crawl, one frame: >H number, each 8 bytes fingerprint and >B 1 if its page is parsed again
-- returns  how many there were

local crawl, frame, position, number = tonumber(ARGV[1]), ARGV[2], 1
local letters = tag .. ':d:' .. crawl

local function unpack_letter(packed)
  local letter, position = {}
  letter.died_at, letter.status, letter.page, letter.holder, letter.class, letter.reason, position =
    parse('>dHIc0Bc0Bc0Hc0', packed)
  letter.record = sub(packed, position)
  return letter
end

local dates = {}  -- of the letters that are requeued

local function revive(fp, letter, parsed_again)
  local _, name, pool, packed = unpack_record(letter.record)
  local entry = unpack_entry(packed)
  if parsed_again then
    announce(crawl, entry, letter.record, letter.page, letter.holder)
  else
    entry.attempts, entry.crashes, entry.rests, entry.first_at = 0, 0, 0, nil
    requeue(host_of(name), crawl, pool, entry, 0)
  end
  dates[#dates + 1] = pack('>d', entry.ordinal) .. fp
  count(crawl, 'dead', -1)
  count(crawl, 'dead.' .. letter.class, -1)
end

local revived = {}
if options_of(crawl) then
  number, position = parse('>H', frame, position)
  for _ = 1, number do
    local fp, again
    fp, again, position = parse('>c8B', frame, position)
    local packed = call('HGET', letters, fp)
    if packed then
      revive(fp, unpack_letter(packed), again == 1)
      revived[#revived + 1] = fp
    end
  end
  save()
  call_with('HDEL', letters, revived)
  call_with('ZREM', tag .. ':dz:' .. crawl, dates)
end
return #revived
