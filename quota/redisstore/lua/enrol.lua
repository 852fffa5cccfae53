-- enrol puts a key among the members of a family, unless there are too many: idle
-- ones go first.
--
-- KEYS: the members, a sorted set by the instant from which each is idle.
-- ARGV: the key, its span in microseconds, the most there may be.
-- RETURNS done, 1 if it is a member.

local now = clock()
local key, span_, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
-- the clock had been far ahead: all that was used then counts from now
local ahead = call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + 2 * span_), '+inf', 'LIMIT', 0, 16)
for _, member in ipairs(ahead) do
  call('ZADD', KEYS[1], string.format('%.0f', now + span_), member)
end
if not call('ZSCORE', KEYS[1], key) and call('ZCARD', KEYS[1]) >= most then
  return { DONE, 0 }
end
call('ZADD', KEYS[1], string.format('%.0f', now + span_), key)
call('PEXPIRE', KEYS[1], ceil(span_ / 1000) + 3600000)
return { DONE, 1 }
