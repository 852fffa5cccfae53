-- note_swap writes a note if its version is the given one.
--
-- KEYS: the notes, a hash by their names. Each has its version and a space in front.
-- ARGV: the name, the version, the note.
-- RETURNS 1 if it was written, else 0; the note with its version; the time.

local now = string.format('%.0f', clock())
local is = redis.call('HGET', KEYS[1], ARGV[1]) or '0 '
local version = string.match(is, '^%d+')
if version ~= ARGV[2] then
  return { 0, is, now }
end
is = string.format('%.0f', tonumber(version) + 1) .. ' ' .. ARGV[3]
redis.call('HSET', KEYS[1], ARGV[1], is)
return { 1, is, now }
