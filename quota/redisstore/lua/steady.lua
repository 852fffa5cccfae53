-- steady is the way of almost every reservation: one pool, its page as expected,
-- no window between two buckets or near a boundary, no block, room in all of them.
-- It does what reserve does then, on the first part of the page alone and without
-- the prelude, whose functions cost more to define than all of this costs to run.
-- Anything else it leaves to reserve, and has written nothing.
--
-- KEYS: the page; if spend is counted its key of today; if there is an id the
--   receipt (with spend).
-- ARGV: numbers; labels; nonce; the rest of the receipt; how long it lives, in
--   milliseconds.
--   Numbers, as doubles: units, identity, born (0 if nobody knows), 0 for no id, 1
--   for a new one, 2 for one that may be known; today's start, and its end or when
--   the caller has to hear anew until when the page is kept (0 if spend is not
--   counted); and per window limit, 0 for a ring, -1 for a calendar, else the
--   step of a counter, and its steps.
-- RETURNS now, the tightest window, used, limit, reset; or the number 0.

local now = clock()
local key, numbers = KEYS[1], ARGV[1]
local n = (#numbers - 48) / 24
local all, live, to, from -- to and from as text: a script's numbers are slow to hand over
if n == 1 then
  all, live, to, from = '<ddddddddd', '<ddd', '71', '48'
elseif n == 2 then
  all, live, to, from = '<dddddddddddd', '<ddddd', '95', '56'
else
  all, live = '<' .. string.rep('d', 6 + 3 * n), '<' .. string.rep('d', 1 + 2 * n)
  to, from = 47 + 24 * n, 40 + 8 * n
end
local s = redis.call('GETRANGE', key, '0', to)
if #s ~= 48 + 24 * n then
  return 0
end
local p, f = { struct.unpack(all, s) }, { struct.unpack(all, numbers) } -- as many of both
local units = f[1]
if p[1] ~= f[2] or now >= p[2] or now < p[6 + n]
  or f[6] ~= 0 and (p[3] ~= f[3] or now < f[5] or now >= f[6]) then -- a family's births are not kept
  return 0
end
local tight, has, limit, left, reset
for i = 1, n do
  local o, w = 5 + n + 2 * i, 4 + 3 * i
  local used, step = p[o] + units, f[w + 1]
  p[o] = used
  if step == 0 then -- a ring: all, and what the current bucket has
    p[o + 1] = p[o + 1] + units
  elseif step > 0 and p[o + 1] > 0 then -- a counter: the current and the previous window
    local overlap = math.ceil((p[5 + i] - step * f[w + 2] - now) / step)
    used = used + math.ceil(p[o + 1] * overlap / f[w + 2])
  end
  local room = f[w] - used
  if room < 0 then
    return 0
  end
  if not left or room < left then
    tight, has, limit, left, reset = i, used, f[w], room, p[5 + i]
  end
end
if f[4] == 2 and redis.call('EXISTS', KEYS[3]) == 1 then
  return 0
end

if f[6] ~= 0 then -- before all else: it may be no hash, and then nothing must have been written
  local spend, labels = KEYS[2], ARGV[2]
  local calls = redis.pcall('HINCRBY', spend, 'c' .. labels, '1')
  if type(calls) == 'table' then
    return 0
  end
  redis.call('HINCRBY', spend, 'u' .. labels, units)
  if calls == 1 then
    local other = 'other\31other\31other\31other\31'
    if redis.call('HLEN', spend) > 4000 and labels ~= other then
      redis.call('HDEL', spend, 'u' .. labels, 'c' .. labels)
      redis.call('HINCRBY', spend, 'u' .. other, units)
      redis.call('HINCRBY', spend, 'c' .. other, 1)
    end
    redis.call('PEXPIRE', spend, 36 * 86400000)
  end
end
p[6 + n] = now
redis.call('SETRANGE', key, from, struct.pack(live, unpack(p, 6 + n)))
if f[4] ~= 0 then
  redis.call('SET', KEYS[3], ARGV[3] .. struct.pack('<dddddddd', now, 0, 0, 0, 0, units, now, p[5]) .. ARGV[4], 'PX', ARGV[5])
end
return { now, tight, has, limit, reset }
