-- A request of GCRA, as redis_rate decides it, in whole microseconds.
--
-- KEYS: the theoretical arrival time.
-- ARGV: how far apart requests are; how much of that a burst may take.
-- RETURNS 1 if accepted, and now by the server's clock.

local every, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + every
if tat - now > burst then
  return {0, now}
end
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
return {1, now}
