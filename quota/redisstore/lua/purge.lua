-- purge deletes the page of a member that has lost its place, unless something of it
-- still counts. It would expire before long; but there is a page for who has its place.
--
-- KEYS: the page, its logs.
-- RETURNS 1.

local now = clock()
local head = redis.call('GETRANGE', KEYS[1], 0, 31)
local n = #head == 32 and struct.unpack('<d', head, 25) or 0
if n < 1 or n > 1000 or n % 1 ~= 0 then
  return { 1 }
end
local function double(i)
  return (struct.unpack('<d', redis.call('GETRANGE', KEYS[1], 8 * (i - 1), 8 * i - 1)))
end
local latest, span = double(6 + n), double(6 + 3 * n + 9)
if now >= latest + span or latest - now > span then -- or the clock had been far ahead
  redis.call('DEL', unpack(KEYS))
end
return { 1 }
