-- lease_keep prolongs a lease that is still held, or gives it back.
--
-- KEYS: the lease.
-- ARGV: its token, for how long from now in microseconds; 0 gives it back.
-- RETURNS 1, or 0 if it is not held any more.

local now = clock()
local token, life = ARGV[1], tonumber(ARGV[2])
local last = redis.call('HMGET', KEYS[1], 'token', 'until')
if last[1] ~= token or tonumber(last[2]) <= now then
  return { 0 }
end
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + life))
return { 1 }
