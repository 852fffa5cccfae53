-- Rings: n+1 counters, because the oldest bucket counts in full until it has left.

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
    s = call('GETRANGE', p.key, p[o + 2], p[o + 2] + slotsize(p, i) * size - 1)
    p.slots[i] = s
  end
  local bytes = slotsize(p, i)
  return (unpack_(bytes == 4 and '<I4' or '<d', s, bytes * k + 1))
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
-- units, or nil. It skips runs of zeros in the stored ring fast.
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
      local k, bytes = from % size, slotsize(p, i)
      local at = string.find(s, '[^%z]', bytes * k + 1)
      local skip = at and floor((at - 1) / bytes) - k or size - k
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

-- ring_set changes what is in a bucket, and the sum.
local function ring_set(p, i, bucket, was, units)
  local o = state(i)
  if bucket == p[o + 3] then
    p[o + 5] = units
  elseif was ~= units then
    setslot(p, i, bucket, units)
  end
  p[o + 4] = p[o + 4] + (units - was)
end

-- ring_put fills a bucket up to the brim. A wide ring that is full drops its oldest units
-- instead: the newer ones leave later.
local function ring_put(p, i, bucket, units)
  local o = state(i)
  if slotsize(p, i) == 8 then
    local over = units - (MOST - p[o + 4])
    local b, n = bucket, nil
    if over > 0 then
      b, n = occupied(p, i, p[o + 3] - p[o + 7], bucket - 1)
    end
    while over > 0 and b and b < bucket do
      local drop = min(over, n)
      ring_set(p, i, b, n, n - drop)
      over = over - drop
      b, n = occupied(p, i, b + 1, bucket - 1)
    end
    units = units - max(over, 0)
  end
  local has = bucket == p[o + 3] and p[o + 5] or slot(p, i, bucket)
  if slotsize(p, i) == 4 then
    units = min(units, NARROW - has)
  end
  ring_set(p, i, bucket, has, has + units)
end

-- ring_pull takes units out of a bucket; a full one has lost count.
local function ring_pull(p, i, bucket, units)
  local o = state(i)
  local has = bucket == p[o + 3] and p[o + 5] or slot(p, i, bucket)
  if p[o + 4] == MOST or slotsize(p, i) == 4 and has == NARROW then
    return 0
  end
  units = min(units, has)
  ring_set(p, i, bucket, has, has - units)
  return units
end
