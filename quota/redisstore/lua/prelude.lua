-- What the scripts share: pages and their four kinds of windows. The arithmetic
-- is that of the Go package quota/window, which explains it; the suite in
-- quota/storetest holds the two together.
--
-- Numbers are doubles, so all are integers below 2^53. Nothing is written before
-- everything has been read and checked: writes made before an error would stay.
--
-- A page is one string:
--
--   6 doubles   what steady needs: identity (of revision and windows), until when it
--   and 3 a     it may do without this file, born, windows, generation; then resets; then latest,
--   window      and per window the two counters that a reservation changes
--   10 doubles  version, born, generation, revision, latest, blocked, expires, windows, span, was
--               (was: the birth of a page that was lost, whose spend a person has put back)
--   7 doubles   per window: code, region, and five numbers of state
--   text        its length in two bytes, then a line per window: the layout, for people and Go
--   regions     per ring n+1 counters of 4 bytes
--
-- State of a ring: bucket, used, current (units of the bucket, not yet in its
-- slot), precision, n. Of a calendar: start, end, used, prev, next. Of a counter:
-- index, prev, current, per, steps. Of a log: newest, used, -, per, -; its entries
-- are a sorted set of its own, a member "instant:units" with the instant as score.
--
-- What stands in both counts as the first part has it.
--
-- A charge comes as doubles: units, revision, born (as the caller remembers it, 0
-- if it does not), identity, then days and windows, each with their count before them. A day
-- is start, end. A window is code, limit, a, b, span, lag, then the number of
-- calendar periods sent, and for each start, end.

local redis, struct, string = redis, struct, string
local call, pack, unpack_ = redis.call, struct.pack, struct.unpack
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local VERSION = 1
local HEAD, STATE = 10, 7                       -- doubles
local RING, CALENDAR, LOG, COUNTER = 1, 2, 3, 4 -- code mod 8
local FULL = 4294967295                         -- a bucket that has lost count
local NEVER = 9007199254740992
local MAX_LABELS, SPEND_LIFE = 2000, 36 * 86400000
local OTHER_LABELS = 'other\31other\31other\31other\31'
local MARGIN = 3600000000                       -- a page is kept an hour or two longer than it counts

local missed -- an instant whose calendar period or day the caller did not send

local function doubles(s, from, n)
  return { unpack_('<' .. string.rep('d', n), s, from) }
end

-- Charges and pages ----------------------------------------------------------

-- How a reply begins.
local DONE, MISSED, STALE, OTHER_WINDOWS, FORGOTTEN, RELAY, OTHER_CHARGES, GONE = 1, 2, 3, 4, 5, 6, 7, 8

-- charge reads a charge. w[i] is where window i begins in c, less one.
local function charge(blob)
  local c = doubles(blob, 1, floor(#blob / 8))
  local at = 5
  c.days, c.day = c[5], at
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
  local w = c.w[i]
  local code, a, b = c[w + 1], c[w + 3], c[w + 4]
  local kind = code % 8
  p[o + 1] = code
  p[o + 2] = 0
  if kind == RING then
    p[o + 3], p[o + 4], p[o + 5], p[o + 6], p[o + 7] = floor(now / a), 0, 0, a, b
  elseif kind == CALENDAR then
    p[o + 3], p[o + 4] = period(c, i, now)
    p[o + 5], p[o + 6], p[o + 7] = 0, 0, 0
  elseif kind == COUNTER then
    p[o + 3], p[o + 4], p[o + 5], p[o + 6], p[o + 7] = floor(now / a), 0, 0, a, b
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
  p.slots, p.put = {}, {}
  for i = 1, c.n do
    begin(p, i, now)
    local o = state(i)
    if p[o + 1] % 8 == RING then
      p[o + 2] = region
      region = region + 4 * (p[o + 7] + 1)
    end
  end
  p.size = region
end

-- fresh is a page that nobody knew.
local function fresh(key, c, now, text, logs)
  local p = { VERSION, now, now, c[2], now, 0, 0, c.n, 0, 0 }
  p.key, p.c, p.logs, p.new = key, c, logs, true
  layout(p, now, text)
  return p
end

local relay

-- load returns the page of a charge, laid out for it; or nil and what is wrong, as
-- the beginning of a reply. old is the charge that laid the page out, which Go
-- sends when it is told that the page has to be laid out anew.
local function load(key, c, now, text, logs, old, restore)
  local s = call('GETRANGE', key, 0, front(c.n) - 1)
  if #s == 0 then
    if c[3] > 0 and not restore then
      return nil, { FORGOTTEN, c[3] }
    end
    local p = fresh(key, c, now, text, logs)
    p[10] = c[3]
    return p
  end
  local n = unpack_('<d', s, 25)
  if n ~= c.n then
    s = call('GETRANGE', key, 0, front(n) - 1)
  end
  local p = doubles(s, 8 * first(n) + 1, HEAD + STATE * n)
  local live = doubles(s, 8 * (5 + n) + 1, 1 + 2 * n)
  p[5] = live[1]
  for i = 1, n do
    local o = state(i)
    local kind = p[o + 1] % 8
    if kind == RING then
      p[o + 4], p[o + 5] = live[2 * i], live[2 * i + 1]
    elseif kind ~= LOG then
      p[o + 5] = live[2 * i]
    end
  end
  p.key, p.c, p.logs, p.put, p.slots = key, c, logs, {}, {}
  if c[3] > 0 and p[2] ~= c[3] and p[10] ~= c[3] then
    if not restore then
      return nil, { FORGOTTEN, c[3] }
    end
    p[10] = c[3]
  end
  if c[2] < p[4] then
    return nil, { STALE, p[4] }
  end
  local same = n == c.n
  for i = 1, same and n or 0 do
    same = same and p[state(i) + 1] == c[c.w[i] + 1]
  end
  if same then
    p[4] = c[2]
    return p
  elseif c[2] == p[4] then
    return nil, { OTHER_WINDOWS, p[4] }
  elseif not old then
    local at = front(n)
    local length = unpack_('<I2', call('GETRANGE', key, at, at + 1))
    return nil, { RELAY, call('GETRANGE', key, at + 2, at + 1 + length) }
  end
  p.c = old
  return relay(p, c, now, text)
end

-- Rings ------------------------------------------------------------------------

-- slot reads the counter of a bucket other than the current one.
local function slot(p, i, bucket)
  local o = state(i)
  local size = p[o + 7] + 1
  local k = bucket % size
  local put = p.put[i]
  if put and put[k] then
    return put[k]
  end
  if p.new then
    return 0
  end
  local s = p.slots[i]
  if not s then
    s = call('GETRANGE', p.key, p[o + 2], p[o + 2] + 4 * size - 1)
    p.slots[i] = s
  end
  return (unpack_('<I4', s, 4 * k + 1))
end

local function setslot(p, i, bucket, units)
  local put = p.put[i]
  if not put then
    put = {}
    p.put[i] = put
  end
  put[bucket % (p[state(i) + 7] + 1)] = units
end

-- occupied returns the first bucket from from to last that is not empty, and its
-- units; nil if there is none. Runs of zeros in the stored ring are skipped fast.
local function occupied(p, i, from, last)
  local o = state(i)
  local size = p[o + 7] + 1
  while from <= last do
    local units = from == p[o + 3] and p[o + 5] or slot(p, i, from)
    if units > 0 then
      return from, units
    end
    local s = p.slots[i]
    if s and not p.put[i] then
      local k = from % size
      local at = string.find(s, '[^%z]', 4 * k + 1)
      local skip = at and floor((at - 1) / 4) - k or size - k
      from = max(from + 1, min(from + skip, max(from + 1, p[o + 3])))
    else
      from = from + 1
    end
  end
end

local function ring_advance(p, i, at)
  local o = state(i)
  local bucket, size = floor(at / p[o + 6]), p[o + 7] + 1
  local was = p[o + 3]
  if bucket <= was then
    return
  end
  if bucket - was >= size then
    if p[o + 4] > 0 then -- else every slot is zero already
      local b, units = occupied(p, i, was - size + 1, was - 1)
      while b do
        setslot(p, i, b, 0)
        b, units = occupied(p, i, b + 1, was - 1)
      end
    end
    p[o + 4] = 0
  else
    if p[o + 5] > 0 then
      setslot(p, i, was, p[o + 5])
    end
    if p[o + 4] > 0 then
      for b = was + 1, bucket do
        local units = slot(p, i, b) -- of the bucket that was size before
        if units > 0 then
          p[o + 4] = p[o + 4] - units
          setslot(p, i, b, 0)
        end
      end
    end
  end
  p[o + 3], p[o + 5] = bucket, 0
end

-- ring_put fills a bucket up to the brim.
local function ring_put(p, i, bucket, units)
  local o = state(i)
  if bucket == p[o + 3] then
    units = min(units, FULL - p[o + 5])
    p[o + 5] = p[o + 5] + units
  else
    local has = slot(p, i, bucket)
    units = min(units, FULL - has)
    setslot(p, i, bucket, has + units)
  end
  p[o + 4] = p[o + 4] + units
end

-- ring_pull takes units out of a bucket; a full one has lost count.
local function ring_pull(p, i, bucket, units)
  local o = state(i)
  local has = bucket == p[o + 3] and p[o + 5] or slot(p, i, bucket)
  if has == FULL then
    return 0
  end
  units = min(units, has)
  if bucket == p[o + 3] then
    p[o + 5] = has - units
  elseif units > 0 then
    setslot(p, i, bucket, has - units)
  end
  p[o + 4] = p[o + 4] - units
  return units
end

-- Calendars --------------------------------------------------------------------

local function following(p, i)
  local _, last = period(p.c, i, p[state(i) + 4])
  return last
end

local function calendar_advance(p, i, at)
  local o = state(i)
  local stop = p[o + 4]
  if at < stop then
    return
  end
  local from, to = period(p.c, i, at)
  if from == stop then
    p[o + 6], p[o + 5] = p[o + 5], p[o + 7]
  elseif from < stop then
    p[o + 6] = 0 -- the zone's rules are others than they were: what was used stays
  elseif p[o + 7] > 0 and following(p, i) == from then
    p[o + 6], p[o + 5] = p[o + 7], 0
  else
    p[o + 6], p[o + 5] = 0, 0
  end
  p[o + 7] = 0
  p[o + 3], p[o + 4] = from, to
end

-- calendar_prev reports whether at counts in the period before, while that one
-- still decides.
local function calendar_prev(p, i, at)
  local o, lag = state(i), p.c[p.c.w[i] + 6]
  local after = p[o + 3] + lag
  if at >= after or (p.latest or p[5]) >= after then
    return false
  end
  if at >= p[o + 3] - lag then
    return true
  end
  return at >= period(p.c, i, p[o + 3] - 1) - lag
end

-- Logs -------------------------------------------------------------------------

-- entries returns what a log holds from an instant on, oldest first: instants and
-- units by turns. What was changed in this script is in p.log.
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

local function log_pull(p, i, k, units)
  local o, l = state(i), p.log[i]
  if l[k + 1] == FULL then
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

-- Counters ---------------------------------------------------------------------

local function counter_advance(p, i, at)
  local o = state(i)
  local index, was = floor(at / p[o + 6]), p[o + 3]
  if index <= was then
    return
  end
  p[o + 4] = index == was + 1 and p[o + 5] or 0
  p[o + 5] = 0
  p[o + 3] = index
end

-- counter_side returns which number of the state at counts in, or nil.
local function counter_side(p, i, at)
  local o = state(i)
  local from = p[o + 3] * p[o + 6]
  if at >= from then
    return o + 5
  elseif at >= from - p[o + 6] then
    return o + 4
  end
end

-- Windows ----------------------------------------------------------------------

local function advance(p, i, at)
  local kind = p[state(i) + 1] % 8
  if kind == RING then
    ring_advance(p, i, at)
  elseif kind == CALENDAR then
    calendar_advance(p, i, at)
  elseif kind == LOG then
    log_advance(p, i, at)
  else
    counter_advance(p, i, at)
  end
end

-- used is what counts at an instant to which the window has advanced.
local function used(p, i, at)
  local o = state(i)
  local kind = p[o + 1] % 8
  if kind == RING or kind == LOG then
    return p[o + 4]
  elseif kind == CALENDAR then
    if at < p[o + 3] + p.c[p.c.w[i] + 6] then
      return max(p[o + 5], p[o + 6])
    end
    return p[o + 5]
  end
  if p[o + 4] == 0 then
    return p[o + 5]
  end
  local stop = (p[o + 3] + 1) * p[o + 6]
  local overlap = ceil((stop - at) / (p[o + 6] / p[o + 7]))
  return ceil(p[o + 4] * overlap / p[o + 7]) + p[o + 5]
end

local function fits(has, units, limit)
  return units == 0 or units <= limit - has
end

local function fill(p, k, units)
  p[k] = p[k] + min(units, FULL - p[k])
end

local function drain(p, k, units)
  if p[k] == FULL then
    return 0
  end
  units = min(units, p[k])
  p[k] = p[k] - units
  return units
end

-- add counts units at an instant, which may lie before the window's latest.
local function add(p, i, at, units)
  local o = state(i)
  local kind = p[o + 1] % 8
  advance(p, i, at)
  if kind == RING then
    local bucket = min(floor(at / p[o + 6]), p[o + 3])
    if bucket >= p[o + 3] - p[o + 7] then
      ring_put(p, i, bucket, units)
    end
  elseif kind == CALENDAR then
    local lag = p.c[p.c.w[i] + 6]
    if at >= p[o + 3] - lag then
      fill(p, o + 5, units)
    end
    if at >= p[o + 4] - lag then
      fill(p, o + 7, units)
    end
    if calendar_prev(p, i, at) then
      fill(p, o + 6, units)
    end
  elseif kind == LOG then
    if units > 0 and at + p[o + 6] > p[o + 3] then
      local l = entries(p, i)
      local k, there = log_find(l, at)
      if not there then
        table.insert(l, k, at)
        table.insert(l, k + 1, 0)
      end
      units = min(units, FULL - l[k + 1])
      log_set(p, i, at, l[k + 1], l[k + 1] + units)
      l[k + 1] = l[k + 1] + units
      p[o + 4] = p[o + 4] + units
    end
  else
    local side = counter_side(p, i, at)
    if side then
      fill(p, side, units)
    end
  end
end

-- give takes back units that were added at taken; it returns how many it found.
local function give(p, i, at, taken, units)
  local o = state(i)
  local kind = p[o + 1] % 8
  advance(p, i, at)
  if kind == RING then
    local bucket = floor(taken / p[o + 6])
    if bucket > p[o + 3] or bucket < p[o + 3] - p[o + 7] then
      return 0
    end
    return ring_pull(p, i, bucket, units)
  elseif kind == CALENDAR then
    local lag, given = p.c[p.c.w[i] + 6], 0
    if taken >= p[o + 4] then
      return 0
    end
    if taken >= p[o + 3] - lag then
      given = drain(p, o + 5, units)
    end
    if taken >= p[o + 4] - lag then
      drain(p, o + 7, units)
    end
    if calendar_prev(p, i, taken) then
      given = max(given, drain(p, o + 6, units))
    end
    p[o + 7] = min(p[o + 7], p[o + 5])
    return given
  elseif kind == LOG then
    local k, there = log_find(entries(p, i), taken)
    return there and log_pull(p, i, k, units) or 0
  end
  if taken >= (p[o + 3] + 1) * p[o + 6] then
    return 0
  end
  local side = counter_side(p, i, taken)
  return side and drain(p, side, units) or 0
end

-- forget takes back units from the oldest that count.
local function forget(p, i, at, units)
  local o = state(i)
  local kind = p[o + 1] % 8
  advance(p, i, at)
  if kind == RING then
    local b = occupied(p, i, p[o + 3] - p[o + 7], p[o + 3])
    while b and units > 0 do
      units = units - ring_pull(p, i, b, units)
      b = occupied(p, i, b + 1, p[o + 3])
    end
  elseif kind == CALENDAR then
    drain(p, o + 5, units)
    drain(p, o + 6, units)
    p[o + 7] = min(p[o + 7], p[o + 5])
  elseif kind == LOG then
    local l, k = entries(p, i), 1
    while l[k] and units > 0 do
      local n = #l
      units = units - log_pull(p, i, k, units)
      if #l == n then
        k = k + 2
      end
    end
  else
    units = units - drain(p, o + 4, units)
    drain(p, o + 5, units)
  end
end

-- free is the first instant at which units fit if nothing else happens.
local function free(p, i, at, units, limit)
  local o = state(i)
  local kind = p[o + 1] % 8
  local has = used(p, i, at)
  if fits(has, units, limit) then
    return at
  elseif units > limit then
    return NEVER
  end
  if kind == RING then
    local need, b, n = has + units - limit, p[o + 3] - p[o + 7] - 1, 0
    while need > 0 do
      b, n = occupied(p, i, b + 1, p[o + 3])
      need = need - n
    end
    return (b + p[o + 7] + 1) * p[o + 6]
  elseif kind == CALENDAR then
    local lag = p.c[p.c.w[i] + 6]
    if fits(p[o + 5], units, limit) then
      return p[o + 3] + lag
    elseif fits(p[o + 7], units, limit) then
      return p[o + 4] + lag
    end
    return following(p, i) + lag
  elseif kind == LOG then
    local need, l = has + units - limit, entries(p, i)
    for k = 1, #l, 2 do
      need = need - l[k + 1]
      if need <= 0 then
        return l[k] + p[o + 6]
      end
    end
  end
  local stop, step = (p[o + 3] + 1) * p[o + 6], p[o + 6] / p[o + 7]
  local room = limit - units
  if room - p[o + 5] >= 0 then
    return stop - floor((room - p[o + 5]) * p[o + 7] / p[o + 4]) * step
  end
  return stop + p[o + 6] - floor(room * p[o + 7] / p[o + 5]) * step
end

-- reset is the instant from which nothing that counts now counts any more.
local function reset(p, i, at)
  local o = state(i)
  local kind = p[o + 1] % 8
  if kind == CALENDAR then
    return p[o + 4]
  elseif kind == COUNTER then
    local stop = (p[o + 3] + 1) * p[o + 6]
    if p[o + 5] > 0 then
      return stop + p[o + 6]
    end
    return p[o + 4] > 0 and stop or at
  elseif p[o + 4] == 0 then
    return at
  elseif kind == LOG then
    local l = entries(p, i)
    return l[#l - 1] + p[o + 6]
  end
  local b = p[o + 3]
  if p[o + 5] == 0 then
    repeat
      b = b - 1
    until slot(p, i, b) > 0
  end
  return (b + p[o + 7] + 1) * p[o + 6]
end

-- next_ returns the units that come back next, and when.
local function next_(p, i, at)
  local o = state(i)
  local kind = p[o + 1] % 8
  local has = used(p, i, at)
  if has == 0 then
    return 0, NEVER
  elseif kind == RING then
    local b, units = occupied(p, i, p[o + 3] - p[o + 7], p[o + 3])
    return units, (b + p[o + 7] + 1) * p[o + 6]
  elseif kind == LOG then
    local l = entries(p, i)
    return l[2], l[1] + p[o + 6]
  elseif kind == CALENDAR then
    local lag = p.c[p.c.w[i] + 6]
    if has > p[o + 5] then
      return has - p[o + 5], p[o + 3] + lag
    elseif has > p[o + 7] then
      return has - p[o + 7], p[o + 4] + lag
    end
    return has, following(p, i) + lag
  end
  local when = free(p, i, at, 1, has)
  local index, prev, current = p[o + 3], p[o + 4], p[o + 5]
  counter_advance(p, i, when)
  local then_ = used(p, i, when)
  p[o + 3], p[o + 4], p[o + 5] = index, prev, current
  return has - then_, when
end

-- empty forgets everything that window i holds.
local function empty(p, i)
  local o = state(i)
  local kind = p[o + 1] % 8
  if kind == RING then
    local b = occupied(p, i, p[o + 3] - p[o + 7], p[o + 3] - 1)
    while b do
      setslot(p, i, b, 0)
      b = occupied(p, i, b + 1, p[o + 3] - 1)
    end
  elseif kind == LOG then
    local l = entries(p, i)
    for k = 1, #l, 2 do
      log_set(p, i, l[k], l[k + 1], 0)
    end
    p.log[i] = {}
  end
end

-- Pages ------------------------------------------------------------------------

-- restart gives window i the state of an empty one that begins now.
local function restart(p, i, now)
  local o = state(i)
  empty(p, i)
  local region = p[o + 2]
  begin(p, i, now)
  p[o + 2] = region
end

-- rebase moves all that was used to now: the clock had been far ahead.
local function rebase(p, now)
  for i = 1, p[8] do
    local kind = p[state(i) + 1] % 8
    if kind == COUNTER or kind == CALENDAR then
      advance(p, i, p[5])
    end
    local units = used(p, i, p[5])
    restart(p, i, now)
    p.latest = now
    add(p, i, now, units)
  end
end

-- now_ returns the instant that counts for a page, and whether it was re-based:
-- time only moves forward, but for a page that is more than a window ahead.
local function now_(p, clock)
  if clock >= p[5] then
    return clock, false
  elseif p[5] - clock <= p[9] then
    return p[5], false
  end
  rebase(p, clock)
  if p[6] ~= 0 and p[5] < p[6] then
    p[6] = clock + p[6] - p[5]
  else
    p[6] = 0
  end
  p[5] = clock
  p[3] = p[3] + 1
  return clock, true
end

-- relay gives a page the windows of a price book with a higher revision. One that
-- stays as it is keeps its state; a ring that looks no farther back than one
-- there was gets its buckets, each by its latest instant; anything else carries
-- the most that was used.
function relay(p, c, now, text)
  local at, rebased = now_(p, now)
  local most, longest, back = 0, nil, 0
  local left = {}
  for j = 1, p[8] do
    local o = state(j)
    advance(p, j, at)
    most = max(most, used(p, j, at))
    if p[o + 1] % 8 == RING and p[o + 6] * p[o + 7] > back then
      longest, back = j, p[o + 6] * p[o + 7]
    end
    left[j] = p[o + 1]
  end
  local q = { VERSION, p[2], p[3] + 1, c[2], max(p[5], at), p[6], 0, c.n, 0, p[10] }
  q.key, q.c, q.logs, q.new, q.again, q.log, q.rebased = p.key, c, p.logs, true, true, {}, rebased
  layout(q, at, text)
  for i = 1, c.n do
    local o, code = state(i), c[c.w[i] + 1]
    local j = 1
    while j <= p[8] and left[j] ~= code do
      j = j + 1
    end
    if j <= p[8] then
      left[j] = nil
      for k = 3, STATE do
        q[o + k] = p[state(j) + k]
      end
      if code % 8 == RING then
        local first, last = p[state(j) + 3] - p[state(j) + 7], p[state(j) + 3] - 1
        local b, units = occupied(p, j, first, last)
        while b do
          setslot(q, i, b, units)
          b, units = occupied(p, j, b + 1, last)
        end
      elseif code % 8 == LOG then
        q.log[i] = entries(p, j)
        for k = 1, #q.log[i], 2 do
          log_set(q, i, q.log[i][k], 0, q.log[i][k + 1])
        end
      end
    elseif code % 8 == RING and longest and back >= q[o + 6] * q[o + 7] then
      local width, last = p[state(longest) + 6], p[state(longest) + 3]
      local b, units = occupied(p, longest, last - p[state(longest) + 7], last)
      while b do
        add(q, i, min(at, (b + 1) * width - 1), units)
        b, units = occupied(p, longest, b + 1, last)
      end
    else
      add(q, i, at, most)
    end
  end
  return q
end

-- live is what steady needs of a page.
local function live(p)
  local n, c = p[8], p.c
  local b = { c[4], p[7] - MARGIN - p[9], p[2], n, p[3] }
  b[6 + n] = p[5]
  for i = 1, n do
    local o = state(i)
    local kind = p[o + 1] % 8
    local stop, reset_, x, y = 0, 0, 0, 0
    if kind == RING then
      stop, reset_ = (p[o + 3] + 1) * p[o + 6], (p[o + 3] + p[o + 7] + 1) * p[o + 6]
      x, y = p[o + 4], p[o + 5]
    elseif kind == CALENDAR then
      local lag = c[c.w[i] + 6]
      stop, reset_, x = p[o + 4] - lag, p[o + 4], p[o + 5]
      if p[5] < p[o + 3] + lag then
        stop = 0
      end
    elseif kind == COUNTER then
      stop = (p[o + 3] + 1) * p[o + 6]
      reset_, x, y = stop + p[o + 6], p[o + 5], p[o + 4]
    end
    b[2] = min(b[2], stop)
    b[5 + i], b[5 + n + 2 * i], b[6 + n + 2 * i] = reset_, x, y
  end
  if p[6] ~= 0 and p[5] < p[6] then
    b[2] = 0
  end
  return pack('<' .. string.rep('d', first(n)), unpack(b, 1, first(n)))
end

-- write stores a page, and sees to it that it is kept for as long as it counts.
local function write(p, now, q)
  local keep = false
  local need = max(p[5] + p[9], p[6])
  if p.new or need > p[7] - MARGIN then
    p[7] = need + 2 * MARGIN
    keep = true
  end
  local n = HEAD + STATE * p[8]
  local head = live(p) .. pack('<' .. string.rep('d', n), unpack(p, 1, n))
  if p.new then
    if p.again then
      for _, key in pairs(p.logs) do
        call('DEL', key)
      end
    end
    head = head .. pack('<I2', #p.text) .. p.text
    call('SET', p.key, head .. string.rep('\0', p.size - #head))
  else
    call('SETRANGE', p.key, 0, head)
  end
  for i, put in pairs(p.put) do
    local region = p[state(i) + 2]
    for k, units in pairs(put) do
      call('SETRANGE', p.key, region + 4 * k, pack('<I4', units))
    end
  end
  if p.zset then
    for _, z in ipairs(p.zset) do
      call(unpack(z))
    end
  end
  if keep then
    local ms = max(1, ceil((p[7] - now) / 1000))
    call('PEXPIRE', p.key, ms)
    for _, key in pairs(p.logs) do
      call('PEXPIRE', key, ms)
    end
    if q.zone ~= '' then
      call('HSET', KEYS[2], string.match(p.key, '[^:]*$'), q.zone)
    end
  end
  return keep
end

-- The charges of a request ------------------------------------------------------

-- KEYS: the receipt, the pools; then per charge its page, a spend key per day, its
-- logs.
-- ARGV: meta, nonce, pools, labels; then per charge: the charge, its layout as
-- text, the charge that laid the page out or '', the zone of its days or ''.
-- meta is doubles: the number of charges, 1 if there is an id, 1 if its receipt is
-- to be looked for, the life of a receipt; then per charge the number of its logs.

local function request()
  local meta = doubles(ARGV[1], 1, floor(#ARGV[1] / 8))
  local r = { n = meta[1], id = meta[2] == 1, look = meta[3] == 1, life = meta[4], nonce = ARGV[2], pools = ARGV[3], labels = ARGV[4] }
  local key = 3
  for i = 1, r.n do
    local c = charge(ARGV[1 + 4 * i])
    local old = ARGV[3 + 4 * i]
    local logs, spend = {}, {}
    local page = KEYS[key]
    for d = 1, c.days do
      spend[d] = KEYS[key + d]
    end
    key = key + 1 + c.days
    for l = 1, meta[4 + i] do
      logs[l] = KEYS[key]
      key = key + 1
    end
    r[i] = { page = page, c = c, text = ARGV[2 + 4 * i], zone = ARGV[4 + 4 * i], old = old ~= '' and charge(old) or nil, logs = logs, spend = spend }
  end
  return r
end

-- open loads the pages of a request and brings them to the instant that counts.
local function open(r, now)
  local pages = { rebased = 0 }
  for i = 1, r.n do
    local q = r[i]
    local p, wrong = load(q.page, q.c, now, q.text, q.logs, q.old, r.restore)
    if not p then
      wrong[3] = i
      return nil, wrong
    end
    local at, rebased = now_(p, now)
    p.at = at
    if rebased or p.rebased then
      pages.rebased = 1
    end
    pages[i] = p
  end
  return pages
end

-- tally counts spend on the day of an instant, and returns the day's key.
local function tally(q, at, labels, units, calls)
  if q.c.days == 0 then
    return ''
  end
  local key = q.spend[dayof(q.c, at)]
  call('HINCRBY', key, 'u' .. labels, units)
  if call('HINCRBY', key, 'c' .. labels, calls) == calls then -- new, it seems
    if call('HLEN', key) > 2 * MAX_LABELS and labels ~= OTHER_LABELS then
      call('HDEL', key, 'u' .. labels, 'c' .. labels)
      call('HINCRBY', key, 'u' .. OTHER_LABELS, units)
      call('HINCRBY', key, 'c' .. OTHER_LABELS, calls)
    end
    call('PEXPIRE', key, SPEND_LIFE)
  end
  return key
end

-- A receipt is the nonce; doubles: made, settled, back, left, charged, and per
-- charge units, instant, generation; and a text: pools, labels, spend keys.

local function leave(r, now, pages, at)
  local numbers = { now, 0, 0, 0, 0 }
  local days = {}
  for i = 1, r.n do
    local k = 5 + 3 * (i - 1)
    numbers[k + 1], numbers[k + 2], numbers[k + 3] = r[i].c[1], at[i], pages[i][3]
    days[i] = tally(r[i], at[i], r.labels, r[i].c[1], 1)
  end
  if r.id then
    local head = pack('<' .. string.rep('d', #numbers), unpack(numbers))
    call('SET', KEYS[1], r.nonce .. head .. table.concat({ r.pools, r.labels, table.concat(days, '\30') }, '\29'),
      'PX', ceil(r.life / 1000))
  end
end

-- receipt reads the receipt of a request's id, or nil.
local function receipt(r, now)
  local s = call('GET', KEYS[1])
  if not s then
    return nil
  end
  local made = unpack_('<d', s, 17)
  if now - made > r.life then
    return nil
  end
  local n = 5 + 3 * r.n
  if #s < 16 + 8 * n then
    return { nonce = '', text = '' } -- of fewer charges
  end
  local got = doubles(s, 17, n)
  got.nonce, got.text = string.sub(s, 1, 16), string.sub(s, 17 + 8 * n)
  return got
end

-- covers reports whether a receipt is for exactly the charges of a request.
local function covers(got, r)
  local same = string.sub(got.text, 1, #r.pools + 1) == r.pools .. '\29'
  for i = 1, r.n do
    same = same and got[3 + 3 * i] == r[i].c[1]
  end
  return same
end
