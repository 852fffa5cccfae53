-- lease_take takes a lease if nobody holds it.
--
-- KEYS: the lease, a hash: token, until, holder.
-- ARGV: who wants it, for how long in microseconds.
-- RETURNS 1 and the token, which is above all before it; or 0, who holds it, and until when.

local now = clock()
local holder, life = ARGV[1], tonumber(ARGV[2])
local last = redis.call('HMGET', KEYS[1], 'token', 'until', 'holder')
local held = tonumber(last[2] or 0)
if held > now and held <= now + life then -- later than any lease can last: the clock had been far ahead
  return { 0, last[3], held }
end
local token = string.format('%.0f', math.max(now, (tonumber(last[1] or 0)) + 1))
redis.call('HSET', KEYS[1], 'token', token, 'until', string.format('%.0f', now + life), 'holder', holder)
redis.call('PEXPIRE', KEYS[1], 2592000000) -- the last token is worth keeping, not for ever
return { 1, token }
