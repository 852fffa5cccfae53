-- Charges as they come, and pages as they are read.

-- How a reply begins.
local DONE, MISSED, STALE, OTHER_WINDOWS, FORGOTTEN, RELAY, OTHER_CHARGES, GONE, ENDED, MOVED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

-- charge reads a charge. w[i] is where window i begins in c, less one.
local function charge(blob)
  local c = doubles(blob, 1, floor(#blob / 8))
  local at = 8
  c.slot = c[8] < 0
  c.days, c.day = max(c[8], 0), at
  at = at + 2 * c.days
  c.n = c[at + 1]
  at = at + 1
  local w = {}
  for i = 1, c.n do
    w[i] = at
    at = at + 7 + 2 * c[at + 7]
  end
  c.w = w
  return c
end

-- period returns the calendar period of window i of which at is a part.
local function period(c, i, at)
  local o = c.w[i] + 7
  for k = 1, c[o] do
    if c[o + 1] <= at and at < c[o + 2] then
      return c[o + 1], c[o + 2]
    end
    o = o + 2
  end
  missed = at
  return at, at + 1
end

-- dayof returns the number of the day that at is a part of.
local function dayof(c, at)
  local o = c.day
  for k = 1, c.days do
    if c[o + 1] <= at and at < c[o + 2] then
      return k
    end
    o = o + 2
  end
  if c.days > 0 then -- else nobody counts the spend
    missed = at
  end
  return 1
end

-- state is where the state of window i begins in a page, less one.
local function state(i)
  return HEAD + STATE * (i - 1)
end

-- slotsize is the number of bytes of a slot of a ring.
local function slotsize(p, i)
  return p[state(i) + 1] % 8 == WIDE and 8 or 4
end

-- first is how many doubles come before the header of a page of n windows, and
-- front how many bytes before its text.
local function first(n)
  return 6 + 3 * n
end

local function front(n)
  return 8 * (first(n) + HEAD + STATE * n)
end

-- span is the longest time for which a charge can count.
local function span(c)
  local longest = 0
  for i = 1, c.n do
    longest = max(longest, c[c.w[i] + 5])
  end
  return longest
end

-- begin gives window i of page p its empty state.
local function begin(p, i, now)
  local c, o = p.c, state(i)
  p.before[i] = nil
  local w = c.w[i]
  local code, a, b = c[w + 1], c[w + 3], c[w + 4]
  local kind = kindof(code)
  p[o + 1] = code
  p[o + 2] = 0
  if kind == RING then
    p[o + 3], p[o + 4], p[o + 5], p[o + 6], p[o + 7] = floor(now / a), 0, 0, a, b
  elseif kind == CALENDAR then
    p[o + 3], p[o + 4] = period(c, i, now)
    p[o + 5], p[o + 6], p[o + 7] = 0, 0, 0
  elseif kind == COUNTER then
    p[o + 3], p[o + 4], p[o + 5], p[o + 6], p[o + 7] = floor(now / a), 0, 0, a, b
  elseif kind == BUCKET then
    p[o + 3], p[o + 4], p[o + 5], p[o + 6], p[o + 7] = 0, -NEVER, 0, a, b
  else
    p[o + 3], p[o + 4], p[o + 5], p[o + 6], p[o + 7] = now, 0, 0, a, 0
  end
end

-- layout gives page p the windows of its charge, and their regions.
local function layout(p, now, text)
  local c = p.c
  p[9] = span(c)
  local region = front(c.n) + 2 + #text
  p[8] = c.n
  p.text = text
  p.slots, p.put, p.before = {}, {}, {}
  for i = 1, c.n do
    begin(p, i, now)
    local o = state(i)
    if kindof(p[o + 1]) == RING then
      p[o + 2] = region
      region = region + slotsize(p, i) * (p[o + 7] + 1)
    end
  end
  p.size = region
end

-- fresh is a page that nobody knew.
local function fresh(key, c, now, text, logs)
  local p = { VERSION, now, now, c[2], now, 0, 0, c.n, 0, 0 }
  p.key, p.c, p.logs, p.new, p.charged = key, c, logs, true, now
  layout(p, now, text)
  return p
end

-- foreign is the reply to who finds that a key was taken by something else.
local function foreign(key, is, want)
  return redis.error_reply('WRONGTYPE ' .. key .. ' holds ' .. is .. ', not ' .. want .. ': delete it, or give the store a prefix of its own')
end

-- large returns a page of n windows that is stored as the prelude says.
local function large(s, n)
  local p = doubles(s, 8 * first(n) + 1, HEAD + STATE * n)
  local live = doubles(s, 8 * (5 + n) + 1, 1 + 2 * n)
  p.before = {}
  p.charged = unpack_('<d', s, 9) == -NEVER and p[5] or live[1] -- else steady may have come by since
  p[5] = live[1]
  for i = 1, n do
    local o = state(i)
    local kind = kindof(p[o + 1])
    if kind == RING then
      p[o + 4], p[o + 5] = live[2 * i], live[2 * i + 1]
    elseif kind == BUCKET then
      p.before[i] = { live[2 * i], live[2 * i + 1] }
    elseif kind ~= LOG then
      p[o + 5] = live[2 * i]
    end
  end
  return p
end

-- small is how many windows a member's page has at most that is stored small; see place.lua.
local SMALL = 4

-- grow returns a member's page that is stored small. It returns nil if nobody knows any
-- more how it is laid out. old is as in load.
local function grow(s, c, old)
  local d, n = doubles(s, 1, #s / 8), (#s - 24) / 16
  local id, codes, revision, text = d[1], {}, c[2], nil
  if id == c[5] then
    for i = 1, n do
      codes[i] = c[c.w[i] + 1]
    end
  else
    local laid = call('HGET', members.seats, 'l' .. whole(id))
    if not laid then
      return nil
    end
    revision, codes, text = unpack_('<d', laid), doubles(laid, 9, n), string.sub(laid, 9 + 8 * n)
  end
  local of -- the charge that has its windows
  for _, b in ipairs({ c, old }) do
    local same = b.n == n
    for i = 1, same and n or 0 do
      same = same and b[b.w[i] + 1] == codes[i]
    end
    of = same and b or of
  end
  local at = max(d[3], -d[3])
  local long = of and span(of) or 0
  local till = ceil((at + long) / members.slice) * members.slice
  local p = { VERSION, d[2], d[2], revision, at, 0, till, n, long, d[3] > 0 and till or 0 }
  for i = 1, n do
    local o, per = state(i), of and of[of.w[i] + 3] or 1
    p[o + 1], p[o + 2], p[o + 3], p[o + 4], p[o + 5] = codes[i], 0, floor(at / per), d[2 + 2 * i], d[3 + 2 * i]
    p[o + 6], p[o + 7] = per, of and of[of.w[i] + 4] or 1
  end
  p.before, p.charged, p.laid, p.renamed, p.small = {}, at, text, id ~= c[5], true
  return p
end

local relay

-- load returns the page of a charge, laid out for it; or nil and what is wrong, as
-- the beginning of a reply: a page that is gone or another one, though by the clock
-- something of it may still count, was lost, unless a person has put it back; so was
-- the end of one that is behind what the caller has seen of it, because its latest
-- instant only moves on, or its generation does. old is the charge that laid the page
-- out, which Go sends when it is told that the page has to be laid out anew.
local load
function load(key, c, now, text, logs, old, restore)
  local s = call('GETRANGE', key, 0, front(c.n) - 1)
  local expected = c[3] ~= 0 and now < c[4] and not restore
  if #s == 0 then
    if expected then
      return nil, { FORGOTTEN, c[3] }
    end
    local p = fresh(key, c, now, text, logs)
    p[10] = restore and not members and max(now, c[3]) or 0
    return p
  end
  local p
  if members and #s < front(1) and #s >= 40 and (#s - 24) % 16 == 0 then
    p = grow(s, c, old)
    if not p then
      return fresh(key, c, now, text, logs)
    end
  end
  local n = p and p[8] or #s >= 32 and unpack_('<d', s, 25) or 0
  if n % 1 ~= 0 or n < 1 or n > MAX_WINDOWS then
    return nil, foreign(key, 'something else', 'a page')
  elseif not p and n ~= c.n then
    s = call('GETRANGE', key, 0, front(n) - 1)
  end
  p = p or large(s, n)
  p.key, p.c, p.logs, p.put, p.slots = key, c, logs, {}, {}
  local behind = p[2] == c[3] and p[3] <= c[6] and p[5] < c[7]
  if expected and p[2] ~= c[3] and p[10] < c[3] then
    return nil, { FORGOTTEN, c[3] }
  elseif expected and behind then
    return nil, { FORGOTTEN, p[5] }
  elseif restore and not members then
    p[10] = max(p[10], now, c[3])
    p[5] = behind and c[7] or p[5] -- the clock may be behind it, too
  end
  p.seen = { p[3], p[5] }
  if c[2] < p[4] then
    return nil, { STALE, p[4] }
  end
  local same = n == c.n
  for i = 1, same and n or 0 do
    same = same and p[state(i) + 1] == c[c.w[i] + 1]
  end
  if same then
    p.newer = c[2] > p[4]
    p[4] = c[2]
    return p
  elseif not old then -- of the same revision Go knows whether it may change
    local at = front(n)
    local laid = p.laid or call('GETRANGE', key, at + 2, at + 1 + unpack_('<I2', call('GETRANGE', key, at, at + 1)))
    return nil, { c[2] == p[4] and OTHER_WINDOWS or RELAY, laid }
  end
  for i = 1, n do -- else another caller has laid it out since, or this is another page
    if old.n ~= n or p[state(i) + 1] ~= old[old.w[i] + 1] then
      return load(key, c, now, text, logs, nil, restore)
    end
  end
  p.c = old
  return relay(p, c, now, text)
end
