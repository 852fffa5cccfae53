-- partitions notes over how many partitions the members of a family are spread.
--
-- KEYS: where that is noted; the members of the family, of earlier versions.
-- ARGV: the partitions.
-- RETURNS 1, now; how many there were before (0: each page had a tag of its own; -1: only
--   keys of the price book can have one), until when, and 1 if the caller has to count the
--   members of an earlier version.

local now = clock()
local got, first = redis.call('HMGET', KEYS[1], 'now', 'was', 'at'), 0
if got[1] ~= ARGV[1] then
  local was = got[1]
  if not was then
    first = redis.call('EXISTS', KEYS[2])
    was = first == 1 and '0' or '-1'
  end
  got = { ARGV[1], was, string.format('%.0f', now) }
  redis.call('HSET', KEYS[1], 'now', got[1], 'was', got[2], 'at', got[3])
end
redis.call('PEXPIRE', KEYS[1], 400 * 86400000)
return { 1, now, tonumber(got[2]), tonumber(got[3]), first }
