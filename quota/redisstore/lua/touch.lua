-- touch keeps a page for longer, because a receipt that charged it lives for longer.
--
-- KEYS: the page, its logs.
-- ARGV: for how many milliseconds at least.
-- RETURNS 1.

local left, most = redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])
if left >= 0 and left < most then
  for _, key in ipairs(KEYS) do -- together: a page would count for ever what only its log can take out
    redis.call('PEXPIRE', key, most)
  end
end
return { 1 }
