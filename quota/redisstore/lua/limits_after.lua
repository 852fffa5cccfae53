-- limits_after returns the limits of keys in the order in which they changed.
--
-- KEYS: the limits, a hash by family and key; their versions, a sorted set.
-- ARGV: after this version, how many at most.
-- RETURNS 1, then the field and the limit of each, in turn.

local after, most = ARGV[1], tonumber(ARGV[2])
local answer = { 1 }
local fields = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. after, '+inf', 'LIMIT', 0, most)
for first = 1, #fields, 1000 do -- as many as unpack can take
  local last = math.min(first + 999, #fields)
  local limits = redis.call('HMGET', KEYS[1], unpack(fields, first, last))
  for i = first, last do
    answer[#answer + 1] = fields[i]
    answer[#answer + 1] = limits[i - first + 1] or ''
  end
end
return answer
