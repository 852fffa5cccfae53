-- Logs: an entry per distinct instant.

-- entries returns the entries of a log, oldest first, as instants and units by turns.
-- p.log has the changes of this script.
local function entries(p, i)
  p.log = p.log or {}
  local l = p.log[i]
  if l then
    return l
  end
  l = {}
  if not p.new then
    for _, member in ipairs(call('ZRANGE', p.logs[i], 0, -1)) do
      local colon = string.find(member, ':', 1, true)
      l[#l + 1] = tonumber(string.sub(member, 1, colon - 1))
      l[#l + 1] = tonumber(string.sub(member, colon + 1))
    end
  end
  p.log[i] = l
  return l
end

local function member(at, units)
  return string.format('%.0f:%.0f', at, units)
end

-- log_set notes that the entry of an instant holds units, 0 for none.
local function log_set(p, i, at, was, units)
  p.zset = p.zset or {}
  local z = p.zset
  if was > 0 then
    z[#z + 1] = { 'ZREM', p.logs[i], member(at, was) }
  end
  if units > 0 then
    z[#z + 1] = { 'ZADD', p.logs[i], string.format('%.0f', at), member(at, units) }
  end
end

local function log_advance(p, i, at)
  local o, l = state(i), entries(p, i)
  local gone = 0
  while l[gone + 1] and l[gone + 1] + p[o + 6] <= at do
    p[o + 4] = p[o + 4] - l[gone + 2]
    log_set(p, i, l[gone + 1], l[gone + 2], 0)
    gone = gone + 2
  end
  if gone > 0 then
    local rest = {}
    for k = gone + 1, #l do
      rest[#rest + 1] = l[k]
    end
    p.log[i] = rest
  end
  p[o + 3] = max(p[o + 3], at)
end

-- log_find returns the place of an instant's entry, or where it would go, and
-- whether it is there.
local function log_find(l, at)
  local k = #l - 1
  while k >= 1 and l[k] > at do
    k = k - 2
  end
  if k >= 1 and l[k] == at then
    return k, true
  end
  return k + 2, false
end

-- log_room drops units of entries before the instant at, the oldest first, so that as many
-- more fit. It returns how many do not fit.
local function log_room(p, i, at, units)
  local o, l = state(i), entries(p, i)
  local over = max(units - (MOST - p[o + 4]), 0)
  while over > 0 and l[1] and l[1] < at do
    local drop = min(over, l[2])
    log_set(p, i, l[1], l[2], l[2] - drop)
    l[2], p[o + 4], over = l[2] - drop, p[o + 4] - drop, over - drop
    if l[2] == 0 then
      table.remove(l, 1)
      table.remove(l, 1)
    end
  end
  return over
end

local function log_pull(p, i, k, units)
  local o, l = state(i), p.log[i]
  if p[o + 4] == MOST then
    return 0
  end
  units = min(units, l[k + 1])
  log_set(p, i, l[k], l[k + 1], l[k + 1] - units)
  l[k + 1] = l[k + 1] - units
  p[o + 4] = p[o + 4] - units
  if l[k + 1] == 0 then
    table.remove(l, k + 1)
    table.remove(l, k)
  end
  return units
end
