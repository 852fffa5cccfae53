-- partitions notes over how many partitions the members of a family are spread. Every
-- process uses the number that is noted, whatever its price book says. A book with a higher
-- revision may change it, once no page of the number before counts any more, because only one
-- former number is known; and a minute after the first. A change has two steps: the number
-- that comes next is noted, then the caller marks the partitions that are left, and commits.
--
-- KEYS: where that is noted; the members of the family, of earlier versions.
-- ARGV: the partitions that the price book asks for, its revision, the number to commit,
--   or 0, and how long pages are brought from the former number, in microseconds.
-- RETURNS 1, now, the partitions; how many there were before (0: each page had a tag of its
--   own; -1: only keys of the price book can have one), until when, 1 if the caller has to
--   count the members of an earlier version, and the number that comes next, or 0.

local now, first = clock(), 0
local want, revision, done = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local got = redis.call('HMGET', KEYS[1], 'now', 'was', 'at', 'revision', 'next')
local parts, was, at, known, next_ = got[1], got[2], tonumber(got[3] or 0), tonumber(got[4] or 0), got[5]
local function note(...)
  redis.call('HSET', KEYS[1], ...)
end
if not parts then
  first = redis.call('EXISTS', KEYS[2])
  parts, was, at = want, first == 1 and '0' or '-1', now
  note('now', parts, 'was', was, 'at', string.format('%.0f', at), 'revision', ARGV[2])
elseif next_ and next_ == done then
  parts, was, at, next_ = next_, parts, now, nil
  note('now', parts, 'was', was, 'at', string.format('%.0f', at))
  redis.call('HDEL', KEYS[1], 'next')
elseif revision > known and want == parts then
  note('revision', ARGV[2])
elseif revision > known and not next_ and now - at >= (was == '-1' and 60000000 or tonumber(ARGV[4])) then
  next_ = want
  note('next', next_, 'revision', ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], 400 * 86400000)
return { 1, now, tonumber(parts), tonumber(was), at, first, tonumber(next_ or 0) }
