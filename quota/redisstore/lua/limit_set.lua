-- limit_set sets the limit of a key of a family.
--
-- KEYS: the limits, a hash by family and key; their versions, a sorted set.
-- ARGV: family and key as one field, the limit without time and version.
-- RETURNS the time and the version.

local now = clock()
local field, limit = ARGV[1], ARGV[2]
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local version = string.format('%.0f', tonumber(last[2] or 0) + 1)
local made = string.format('%.0f', now)
redis.call('HSET', KEYS[1], field, made .. ' ' .. version .. ' ' .. limit)
redis.call('ZADD', KEYS[2], version, field)
return { made, version }
