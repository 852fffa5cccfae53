-- member reserves for a member of a family whose page is stored small: see place.lua. It
-- does what reserve does then, without the prelude. It leaves to reserve what is rare, and
-- has written nothing then.
--
-- KEYS: the page, the places of the partition, the page that new keys share.
-- ARGV: numbers, as doubles: units, identity, the most places (0 for a key that needs
--   none), partitions, which of them it is, span, slice, 1 to leave new keys to reserve; then per window limit,
--   its length and steps.
-- RETURNS now, the tightest window, used, limit, reset, 1 on the shared page; of a refusal
--   also when it is free; or the number 0.

local now = clock()
local floor, ceil, format = math.floor, math.ceil, string.format
local numbers, key, shared = ARGV[1], KEYS[1], 0
local n, layout, f = (#numbers - 64) / 24, nil, nil
if n == 1 then
  f, layout = { struct.unpack('<ddddddddddd', numbers) }, '<ddddd'
else
  f, layout = { struct.unpack('<' .. string.rep('d', 8 + 3 * n), numbers) }, '<' .. string.rep('d', 3 + 2 * n)
end
local units, id, most, long, slice = f[1], f[2], f[3], f[6], f[7]

local s = redis.call('GET', key)
local p, at, till, free_from = nil, 0, nil, nil
if s then
  if #s ~= 24 + 16 * n then
    return 0
  end
  p = { struct.unpack(layout, s) }
  at = p[3] > 0 and p[3] or -p[3]
  till = ceil((at + long) / slice) * slice
  if p[1] ~= id or at > now or (p[3] > 0) ~= (most > 0) or till <= now and most > 0 then
    return 0
  end
elseif f[8] == 1 or now <= 0 then
  return 0
else
  p = {}
  local got = redis.call('HMGET', KEYS[2], 'n', 'next', 'l' .. format('%.0f', id), 'moved')
  if not got[3] or got[4] then
    return 0
  end
  free_from = tonumber(got[2] or 0)
  if most > 0 and tonumber(got[1] or 0) >= most then
    if free_from <= now or free_from - now > 3 * long then
      return 0
    end
    key, shared, most = KEYS[3], 1, 0
    s = redis.call('GET', key)
    if s then
      p = #s == 24 + 16 * n and { struct.unpack(layout, s) } or {}
      at = -(p[3] or 0)
      till = ceil((at + long) / slice) * slice
      if p[1] ~= id or at < 0 or at > now then
        return 0
      end
    end
  end
end

local tight, has, limit, left, reset, free
for i = 1, n do
  local w, o = 6 + 3 * i, 2 + 2 * i
  local cap, per, steps = f[w], f[w + 1], f[w + 2]
  if shared == 1 then
    cap = floor(cap / f[4]) + (f[5] < cap % f[4] and 1 or 0)
  end
  if units > cap then
    return 0
  end
  local prev, cur = p[o] or 0, p[o + 1] or 0
  local index = floor(now / per)
  local late = index - floor(at / per)
  if late > 0 then
    prev, cur = late == 1 and cur or 0, 0
  end
  local stop, step = (index + 1) * per, per / steps
  local used = cur
  if prev > 0 then
    used = cur + ceil(prev * ceil((stop - now) / step) / steps)
  end
  local room = cap - units
  if used > room then
    local from = stop + per - floor(room * steps / cur) * step
    if cur <= room then
      from = stop - floor((room - cur) * steps / prev) * step
    end
    if not free or from > free then
      tight, has, limit, free = i, used, cap, from
      reset = cur > 0 and stop + per or stop
    end
  elseif not free and (not left or room - used < left) then
    tight, has, limit, left, reset = i, used + units, cap, room - used, stop + per
  end
  p[o], p[o + 1] = prev, cur + units
end
if free then
  return { now, tight, has, limit, reset, shared, free }
end

local ends = ceil((now + long) / slice) * slice
local ms = ceil((ends - now) / 1000)
redis.call('SET', key, struct.pack(layout, id, p[2] or now, most > 0 and now or -now, unpack(p, 4, 3 + 2 * n)), 'PX', format('%d', ms))
if ends ~= till or at == 0 then
  local first_ = most == 0
  if most > 0 then
    first_ = redis.call('HINCRBY', KEYS[2], format('%.0f', ends), '1') == 1
    local more = 1
    if at > 0 then
      local rest = redis.call('HINCRBY', KEYS[2], format('%.0f', till), '-1')
      more = rest < 0 and 1 or 0
      if rest <= 0 then
        redis.call('HDEL', KEYS[2], format('%.0f', till))
      end
    end
    if more > 0 then
      redis.call('HINCRBY', KEYS[2], 'n', '1')
    end
    if at == 0 and (free_from == 0 or ends < free_from) then
      redis.call('HSET', KEYS[2], 'next', format('%.0f', ends))
    end
  end
  if first_ and redis.call('PTTL', KEYS[2]) < ms + 1000 then
    redis.call('PEXPIRE', KEYS[2], format('%d', ms + 1000))
  end
  if first_ and redis.call('HLEN', KEYS[2]) > 300 then -- the next new key makes reserve count again
    redis.call('HSET', KEYS[2], 'n', '9007199254740991', 'next', '0')
  end
end
return { now, tight, has, limit, reset, shared }
