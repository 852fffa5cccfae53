-- limit_set sets the limit of a key of a family.
--
-- KEYS: the limits, a hash by family and key; their versions, a sorted set; the last changes,
-- a list.
-- ARGV: family and key as one field, the limit without time and version, how many changes
-- are kept.
-- RETURNS the time and the version. A version is at least the time, so that none is given
-- twice, even if the server lost the last changes.

local now = clock()
local field, limit = ARGV[1], ARGV[2]
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local version = string.format('%.0f', math.max(tonumber(last[2] or 0) + 1, now))
local made = string.format('%.0f', now)
local text = made .. ' ' .. version .. ' ' .. limit
redis.call('HSET', KEYS[1], field, text)
redis.call('ZADD', KEYS[2], version, field)
redis.call('LPUSH', KEYS[3], text, field)
redis.call('LTRIM', KEYS[3], 0, 2 * tonumber(ARGV[3]) - 1)
return { made, version }
