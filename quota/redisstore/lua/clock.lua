-- The clock of every script: the server's, in microseconds since 1970, read once,
-- because it runs on while a script does.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
