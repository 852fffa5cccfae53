-- renew prolongs a receipt of a call without slots.
--
-- KEYS: the receipt.
-- ARGV: its nonce; for how many milliseconds.
-- RETURNS 1.

local s = redis.call('GET', KEYS[1])
if s and string.sub(s, 1, 16) == ARGV[1] then -- made follows the nonce
  redis.call('SET', KEYS[1], string.sub(s, 1, 16) .. struct.pack('<d', clock()) .. string.sub(s, 25), 'PX', ARGV[2])
end
return { 1 }
