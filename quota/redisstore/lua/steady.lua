-- steady is the way of almost every reservation: one pool, its page as expected,
-- and either no window between two buckets or near a boundary, and room in all of
-- them; or not enough room in one, or a block, which is told here too, with when to
-- come again.
-- It does what reserve does then, on the numbers of the page alone and without the
-- prelude, whose functions cost more to define than all of this costs to run.
-- Anything else it leaves to reserve, and has written nothing.
--
-- KEYS: the page; if spend is counted its key of today; if there is an id the
--   receipt (with spend).
-- ARGV: numbers; units as text; labels; of the receipt the nonce, what is between the
--   instants made and charged, and the rest; how long it lives, in milliseconds. (Numbers are
--   slow to hand over, and to pack.)
--   Numbers, as doubles: units, identity, generation (0 if unknown), 0 for no
--   id, 1 for a new one, 2 for one that may be known; today's start, and its end or
--   when the caller has to hear anew until when the page is kept (0 if spend is not
--   counted); until when the caller knows it is; the latest instant that the caller
--   has seen of it; and per window limit, 0 for a ring, -1 for a calendar, else the
--   step of a counter, and the bytes of a slot, the lag or the steps.
-- RETURNS now, the tightest window, used, limit, reset; of a refusal also when it is
--   free, and 2 if that is a block, else 0; or the number 0.

local now = clock()
local key, numbers = KEYS[1], ARGV[1]
local n = (#numbers - 64) / 24
local all, asked, live, to, from -- to and from as text: a script's numbers are slow to hand over
if n == 1 then
  all, asked, live, to, from = '<ddddddddd', '<ddddddddddd', '<ddd', '207', '48'
elseif n == 2 then
  all, asked, live, to, from = '<dddddddddddd', '<dddddddddddddd', '<ddddd', '287', '56'
else
  all, asked, live = '<' .. string.rep('d', 6 + 3 * n), '<' .. string.rep('d', 8 + 3 * n), '<' .. string.rep('d', 1 + 2 * n)
  to, from = 127 + 80 * n, 40 + 8 * n
end
local s = redis.call('GETRANGE', key, '0', to) -- the header is for refusals
if #s ~= 128 + 80 * n then
  return 0
end
local p, f = { struct.unpack(all, s) }, { struct.unpack(asked, numbers) }
local units = f[1]
if p[1] ~= f[2] or now < p[6 + n] or f[6] ~= 0 and (p[5] ~= f[3] or p[6 + n] < f[8]) then -- a family's are not remembered
  return 0
end

local open = now < p[2] and (f[6] == 0 or f[5] <= now and now < f[6])
local fits = open
local tight, has, limit, left, reset
for i = 1, open and n or 0 do
  local o, w = 5 + n + 2 * i, 6 + 3 * i
  local used, step = p[o] + units, f[w + 1]
  if step > 0 and p[o + 1] > 0 then -- a counter: the current and the previous window
    local overlap = math.ceil((p[5 + i] - step * f[w + 2] - now) / step)
    used = used + math.ceil(p[o + 1] * overlap / f[w + 2])
  end
  local room = f[w] - used
  if room < 0 then
    fits = false
    break
  end
  if not left or room < left then
    tight, has, limit, left, reset = i, used, f[w], room, p[5 + i]
  end
end
if f[4] == 2 and redis.call('EXISTS', KEYS[3]) == 1 then
  return 0
end

if not fits then -- or they do, once reserve has brought the page to now
  local floor, text = math.floor, string.format
  local function range(from_, to_)
    return redis.call('GETRANGE', key, text('%d', from_), text('%d', to_ - 1))
  end
  local back, _, _, _, _, till, news = struct.unpack('<ddddddd', s, 49 + 24 * n)
  if back < 0 then -- the clock was set back, and this may be its return
    return 0
  end
  if f[6] ~= 0 and news - 3600000000 > f[7] then
    return 0
  end
  local shut = till ~= 0 and now < till
  local last, blocked = shut and till or now, shut and 2 or 0
  for i = 1, n do
    local o, w, state = 5 + n + 2 * i, 6 + 3 * i, 81 + 24 * n + 56 * i
    local most, step, used = f[w], f[w + 1], p[o]
    local free, ends
    if units > most then
      return 0
    elseif step == 0 and (shut or used + units > most) then -- a ring: its counters, oldest first
      local region, was, _, _, per, size = struct.unpack('<dddddd', s, state)
      size = size + 1
      local bytes, gone, b = f[w + 2], floor(now / per) - size, was - size + 1
      local slot, some, need = bytes == 4 and 'I4' or 'd', math.min(2 + floor(units * size / most), 128), nil
      while b < was and not free and (b <= gone or used + units > most) do
        local k = b % size -- it reads some slots from the first on that is not empty: at first as many as it needs on average
        local stop = k < was % size and was % size or size
        local bit = redis.call('BITPOS', key, '1', text('%d', region + bytes * k), text('%d', region + bytes * stop - 1))
        local from_ = bit < 0 and stop or floor((bit / 8 - region) / bytes)
        b = b + from_ - k
        if from_ < stop then
          local count, j = math.min(some, stop - from_), 1
          local slots = { struct.unpack('<' .. string.rep(slot, count), range(region + bytes * from_, region + bytes * (from_ + count))) }
          while j <= count and b <= gone do -- these units have left
            used, j, b = used - slots[j], j + 1, b + 1
          end
          need = b > gone and (need or used + units - most)
          for k = j, need and need > 0 and count or 0 do
            need = need - slots[k]
            if need <= 0 then
              free = (b + k - j + size) * per
              break
            end
          end
          b, some = b + count - j + 1, math.min(2 * some, 256)
        end
      end
      if was <= gone then
        used = 0
      elseif not free and used + units > most then
        free = (was + size) * per
      end
      ends = (was + size) * per
      if used == 0 then
        ends = now
      elseif p[o + 1] == 0 then
        local cur = was % size
        local ring = range(region, region + bytes * size)
        ring = string.sub(ring, bytes * (cur + 1) + 1) .. string.sub(ring, 1, bytes * cur)
        ends = (was + floor((#ring - string.find(string.reverse(ring), '[^%z]')) / bytes) + 1) * per
      end
    elseif step < 0 then
      local _, start, to_, _, _, later = struct.unpack('<dddddd', s, state)
      local lag = f[w + 2]
      if now < start + lag or now >= to_ then
        return 0
      elseif used + units > most then
        if later + units > most then
          return 0
        end
        free = to_ + lag
      end
      ends = to_
    elseif step > 0 then
      local steps, index, cur, prev = f[w + 2], struct.unpack('<d', s, state + 8), used, p[o + 1]
      local per = step * steps
      local late = floor(now / per) - index
      if late > 0 then
        prev, cur = late == 1 and cur or 0, 0
      end
      local stop = (index + math.max(late, 0) + 1) * per
      used = cur + (prev > 0 and math.ceil(prev * math.ceil((stop - now) / step) / steps) or 0)
      local room = most - units
      if used > room and cur <= room then
        free = stop - floor((room - cur) * steps / prev) * step
      elseif used > room then
        free = stop + per - floor(room * steps / cur) * step
      end
      ends = cur > 0 and stop + per or prev > 0 and stop or now
    end
    if free and free > last then
      last, blocked, tight, has, limit, reset = free, 0, i, used, most, ends
    elseif blocked ~= 0 and (not left or most - used < left) then -- what is shown of a block: the least that is left
      left, tight, has, limit, reset = most - used, i, used, most, ends
    end
  end
  if last == now then
    return 0
  end
  return { now, tight, has, limit, reset, last, blocked }
end

if f[6] ~= 0 then -- before all else: it may be no hash, and then nothing must have been written
  local spend, text, labels = KEYS[2], ARGV[2], ARGV[3]
  local calls = redis.pcall('HINCRBY', spend, 'c' .. labels, '1')
  if type(calls) == 'table' then
    return 0
  end
  if redis.call('HINCRBY', spend, 'u' .. labels, text) > 9007199254740991 then
    redis.call('HSET', spend, 'u' .. labels, '9007199254740991') -- a sum of units stops there
  end
  if calls == 1 then
    local other = 'other\31other\31other\31other\31'
    if redis.call('HLEN', spend) > 4000 and labels ~= other then
      redis.call('HDEL', spend, 'u' .. labels, 'c' .. labels)
      redis.call('HINCRBY', spend, 'u' .. other, text)
      redis.call('HINCRBY', spend, 'c' .. other, 1)
    end
    redis.call('PEXPIRE', spend, 36 * 86400000)
  end
end
p[6 + n] = now
for i = 1, n do
  local o = 5 + n + 2 * i
  p[o] = p[o] + units
  if f[7 + 3 * i] == 0 then -- a ring: all, and what the current bucket has
    p[o + 1] = p[o + 1] + units
  end
end
redis.call('SETRANGE', key, from, struct.pack(live, unpack(p, 6 + n)))
if f[4] ~= 0 then
  local at = struct.pack('<d', now)
  redis.call('SET', KEYS[3], ARGV[4] .. at .. ARGV[5] .. at .. ARGV[6], 'PX', ARGV[7])
end
return { now, tight, has, limit, reset }
