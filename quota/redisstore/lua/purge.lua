-- purge deletes the page of a member that has lost its place, or lets it expire when
-- nothing of it counts any more: it was charged after it got the place. There is a page
-- for who has the place, so it does not keep the margin of those.
--
-- KEYS: the page, its logs.
-- RETURNS 1.

local now = clock()
local NEVER = 9007199254740992
local head = redis.call('GETRANGE', KEYS[1], 0, 31)
local n = #head == 32 and struct.unpack('<d', head, 25) or 0
if n < 1 or n > 1000 or n % 1 ~= 0 then
  return { 1 }
end
local function double(i)
  return (struct.unpack('<d', redis.call('GETRANGE', KEYS[1], 8 * (i - 1), 8 * i - 1)))
end
local latest, span = double(6 + n), double(6 + 3 * n + 9)
local counts = latest + span
for o = 6 + 3 * n + 10, 6 + 3 * n + 3 + 7 * n, 7 do
  if double(o + 1) % 8 == 6 then -- a bucket: until it is empty
    counts = math.max(counts, double(o + 4) + math.ceil(double(o + 3) / double(o + 6)))
  end
end
local left = counts - now
if left <= 0 or latest - now > span then -- or the clock had been far ahead
  redis.call('DEL', unpack(KEYS))
  return { 1 }
end
-- a charge to come must find that its life is shorter: write prolongs it, steady would not
redis.call('SETRANGE', KEYS[1], 8 * (6 + 3 * n + 6), struct.pack('<d', counts))
if double(2) ~= -NEVER then -- that says where the latest instant is to be read
  redis.call('SETRANGE', KEYS[1], 8, struct.pack('<d', 1 - NEVER))
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, math.ceil(left / 1000))
end
return { 1 }
