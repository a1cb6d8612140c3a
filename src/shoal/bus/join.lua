-- Create the consumer group of the shard's page stream, starting at its first entry.
local answer = redis.pcall('XGROUP', 'CREATE', string.sub(KEYS[1], 1, -3) .. PAGES_KEY, ARGV[1], '0', 'MKSTREAM')
if answer.err and not string.find(answer.err, 'BUSYGROUP', 1, true) then
  return answer
end
return 1
