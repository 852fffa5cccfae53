-- A sliding log with a member per unit.
--
-- KEYS: a sorted set, the instant of each unit as its score.
-- ARGV: limit, window in microseconds, units, an id of the call.
-- RETURNS 1 if granted.

local limit, window, units, id = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
if redis.call('ZCARD', KEYS[1]) + units > limit then
  return 0
end
local at = string.format('%.0f', now)
for i = 1, units do
  redis.call('ZADD', KEYS[1], at, id .. ':' .. i)
end
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return 1
