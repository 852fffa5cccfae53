-- enrol gives a key a place among the members of a family, for as long as a charge of
-- now can count. A full family gives it the place of one that is idle, if there is one.
--
-- KEYS: the members, a sorted set by the instant from which each is idle.
-- ARGV: the key, the span of its windows in microseconds, the most members there may be.
-- RETURNS now, 1 if it has a place, the instant from which it would be idle if it were
--   not for this call ('' if it had no place) and is now; then those that lost theirs,
--   whose pages must go.

local now = clock()
local members, key, span, most = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function text(at)
  return string.format('%.0f', at)
end

-- the clock had been far ahead: all that was used then counts from now
local ahead = redis.call('ZRANGEBYSCORE', members, '(' .. text(now + 2 * span), '+inf', 'LIMIT', 0, 16)
for _, member in ipairs(ahead) do
  redis.call('ZADD', members, text(now + span), member)
end

local was = redis.call('ZSCORE', members, key)
local reply = { now, 1, was or '', text(now + span) }
if not was then
  local count = redis.call('ZCARD', members)
  local idle = {}
  if count >= most then
    idle = redis.call('ZRANGEBYSCORE', members, '-inf', text(now), 'LIMIT', 0, math.min(count - most + 1, 16))
  end
  for _, member in ipairs(idle) do
    redis.call('ZREM', members, member)
    reply[#reply + 1] = member
  end
  if count - #idle >= most then
    reply[2] = 0
  end
end
if reply[2] == 1 then
  redis.call('ZADD', members, reply[4], key)
  local life = math.ceil(span / 1000) + 60000 -- longer than any page of a member
  if redis.call('PTTL', members) < life then
    redis.call('PEXPIRE', members, life)
  end
end
return reply
