-- Windows: what all kinds have in common.

local function advance(p, i, at)
  local kind = kindof(p[state(i) + 1])
  if kind == RING then
    ring_advance(p, i, at)
  elseif kind == CALENDAR then
    calendar_advance(p, i, at)
  elseif kind == LOG then
    log_advance(p, i, at)
  elseif kind == COUNTER then
    counter_advance(p, i, at)
  end
end

-- used is what counts at an instant to which the window has advanced.
local function used(p, i, at)
  local o = state(i)
  local kind = kindof(p[o + 1])
  if kind == RING or kind == LOG then
    return p[o + 4]
  elseif kind == CALENDAR then
    if at < p[o + 3] + p.c[p.c.w[i] + 6] then
      return max(p[o + 5], p[o + 6])
    end
    return p[o + 5]
  elseif kind == BUCKET then
    return ceil(bucket_level(p, i, at) / p[o + 7])
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

local function fill(p, k, units, most)
  p[k] = p[k] + min(units, most - p[k])
end

local function drain(p, k, units, most)
  if p[k] == most then
    return 0
  end
  units = min(units, p[k])
  p[k] = p[k] - units
  return units
end

-- add counts units at an instant, which may lie before the window's latest.
local function add(p, i, at, units)
  local o = state(i)
  local kind = kindof(p[o + 1])
  advance(p, i, at)
  if kind == RING then
    local bucket = min(floor(at / p[o + 6]), p[o + 3])
    if bucket >= p[o + 3] - p[o + 7] then
      ring_put(p, i, bucket, units)
    end
  elseif kind == CALENDAR then
    local lag = p.c[p.c.w[i] + 6]
    if at >= p[o + 3] - lag then
      fill(p, o + 5, units, MOST)
    end
    if at >= p[o + 4] - lag then
      fill(p, o + 7, units, MOST)
    end
    if calendar_prev(p, i, at) then
      fill(p, o + 6, units, MOST)
    end
  elseif kind == LOG then
    local alive = at + p[o + 6] > p[o + 3]
    units = alive and units - log_room(p, i, at, units) or 0
    if units > 0 then
      local l = entries(p, i)
      local k, there = log_find(l, at)
      if not there then
        table.insert(l, k, at)
        table.insert(l, k + 1, 0)
      end
      log_set(p, i, at, l[k + 1], l[k + 1] + units)
      l[k + 1] = l[k + 1] + units
      p[o + 4] = p[o + 4] + units
    end
  elseif kind == BUCKET then
    bucket_add(p, i, at, units)
  else
    local side = counter_side(p, i, at)
    if side then
      fill(p, side, units, COUNTED)
    end
  end
end

-- give takes back units that were added at taken; it returns how many it found.
local function give(p, i, at, taken, units)
  local o = state(i)
  local kind = kindof(p[o + 1])
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
      given = drain(p, o + 5, units, MOST)
    end
    if taken >= p[o + 4] - lag then
      drain(p, o + 7, units, MOST)
    end
    if calendar_prev(p, i, taken) then
      given = max(given, drain(p, o + 6, units, MOST))
    end
    p[o + 7] = min(p[o + 7], p[o + 5])
    return given
  elseif kind == LOG then
    local k, there = log_find(entries(p, i), taken)
    return there and log_pull(p, i, k, units) or 0
  elseif kind == BUCKET then
    return bucket_give(p, i, at, taken, units)
  end
  if taken >= (p[o + 3] + 1) * p[o + 6] then
    return 0
  end
  local side = counter_side(p, i, taken)
  return side and drain(p, side, units, COUNTED) or 0
end

-- since returns the units that count since an instant of the past, and the first instant
-- whose units are among them; NEVER if it has left the window, which has advanced to at.
local function since(p, i, at, from)
  local o = state(i)
  local kind = kindof(p[o + 1])
  local units = 0
  from = min(from, at)
  if kind == BUCKET then
    return used(p, i, at), at
  elseif kind == CALENDAR then
    if from < p[o + 3] - p.c[p.c.w[i] + 6] then
      return 0, NEVER
    end
    return p[o + 5], max(from, p[o + 3])
  elseif from + (kind == RING and p[o + 6] * p[o + 7] or p[o + 6]) <= at then
    return 0, NEVER
  elseif kind == RING then
    local first = min(ceil((2 * from - p[o + 6]) / (2 * p[o + 6])), p[o + 3])
    local b, has = occupied(p, i, max(first, p[o + 3] - p[o + 7]), p[o + 3])
    while b do
      units = units + has
      b, has = occupied(p, i, b + 1, p[o + 3])
    end
    return units, max(from, first * p[o + 6])
  elseif kind == LOG then
    local l = entries(p, i)
    for k = log_find(l, from), #l, 2 do
      units = units + l[k + 1]
    end
    return units, from
  end
  return p[o + 4] + p[o + 5], from
end

-- forget takes back units from the oldest that count; it returns how many it found.
local function forget(p, i, at, units)
  local o, want = state(i), units
  local kind = kindof(p[o + 1])
  advance(p, i, at)
  if kind == RING then
    local b = occupied(p, i, p[o + 3] - p[o + 7], p[o + 3])
    while b and units > 0 do
      units = units - ring_pull(p, i, b, units)
      b = occupied(p, i, b + 1, p[o + 3])
    end
  elseif kind == CALENDAR then
    local given, before = drain(p, o + 5, units, MOST), drain(p, o + 6, units, MOST)
    p[o + 7] = min(p[o + 7], p[o + 5])
    -- else the period before does not count any more
    return at < p[o + 3] + p.c[p.c.w[i] + 6] and max(given, before) or given
  elseif kind == LOG then
    local l, k = entries(p, i), 1
    while l[k] and units > 0 do
      local n = #l
      units = units - log_pull(p, i, k, units)
      if #l == n then
        k = k + 2
      end
    end
  elseif kind == BUCKET then
    return bucket_pull(p, i, at, min(units, used(p, i, at)))
  else
    units = units - drain(p, o + 4, units, COUNTED)
    units = units - drain(p, o + 5, units, COUNTED)
  end
  return want - units
end

-- free is the first instant at which units fit if nothing else happens.
local function free(p, i, at, units, limit)
  local o = state(i)
  local kind = kindof(p[o + 1])
  local has = used(p, i, at)
  if fits(has, units, limit) then
    return at
  elseif units > limit then
    return NEVER
  end
  if kind == RING then
    local need, b, n = has - (limit - units), p[o + 3] - p[o + 7] - 1, 0
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
    local need, l = has - (limit - units), entries(p, i)
    for k = 1, #l, 2 do
      need = need - l[k + 1]
      if need <= 0 then
        return l[k] + p[o + 6]
      end
    end
  elseif kind == BUCKET then
    return bucket_falls(p, i, at, limit - units)
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
  local kind = kindof(p[o + 1])
  if kind == CALENDAR then
    return p[o + 4]
  elseif kind == BUCKET then
    return bucket_level(p, i, at) > 0 and bucket_falls(p, i, at, 0) or at
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
  local kind = kindof(p[o + 1])
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
  if kind == BUCKET then
    return has - used(p, i, when), when
  end
  local index, prev, current = p[o + 3], p[o + 4], p[o + 5]
  counter_advance(p, i, when)
  local then_ = used(p, i, when)
  p[o + 3], p[o + 4], p[o + 5] = index, prev, current
  return has - then_, when
end

-- empty forgets everything that window i holds.
local function empty(p, i)
  local o = state(i)
  local kind = kindof(p[o + 1])
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
