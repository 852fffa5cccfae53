-- unenrol takes back what enrol did for a call that was then refused: idle is who was
-- last granted longest ago.
--
-- KEYS: the members.
-- ARGV: the key, the instants from which it is idle: before enrol, and by it.
-- RETURNS 1.

local is = redis.call('ZSCORE', KEYS[1], ARGV[1])
if is and tonumber(is) == tonumber(ARGV[3]) then -- else another call has come by
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
end
return { 1 }
