-- Buckets: a level that drains. It is not brought to the present until it changes.

-- bucket_level is the level at an instant, or at that of the last change if that is later: a page
-- that is laid out again fills its new buckets later than it was charged.
local function bucket_level(p, i, at)
  local o = state(i)
  local level, ago = p[o + 3], max(at - p[o + 4], 0)
  if level == 0 or ago >= ceil(level / p[o + 6]) then
    return 0
  end
  return level - ago * p[o + 6]
end

-- bucket_parts is units as parts, at most those of a full bucket.
local function bucket_parts(p, i, units)
  local unit = p[state(i) + 7]
  return units > floor(NEVER / unit) and NEVER or units * unit
end

-- bucket_move brings the level to an instant that is not before that of the last change.
local function bucket_move(p, i, at)
  local o = state(i)
  p[o + 3], p[o + 4] = bucket_level(p, i, at), at
  p[o + 5] = min(p[o + 5], p[o + 3])
end

-- bucket_begin begins a spell, in which the level is never below a low, if that promises
-- twice as much.
local function bucket_begin(p, i)
  local o = state(i)
  if p[o + 2] ~= p[o + 4] then
    if p[o + 3] - p[o + 5] < p[o + 5] then
      return
    end
    p.before[i] = { p[o + 2], p[o + 5] }
  end
  p[o + 2], p[o + 5] = p[o + 4], p[o + 3]
end

local function bucket_add(p, i, at, units)
  local o = state(i)
  if units > 0 then
    bucket_move(p, i, max(at, p[o + 4]))
    p[o + 3] = p[o + 3] + min(bucket_parts(p, i, units), NEVER - p[o + 3])
    bucket_begin(p, i)
  end
end

-- bucket_pull takes parts out at an instant; a full bucket has lost count.
local function bucket_pull(p, i, at, parts)
  local o = state(i)
  if parts <= 0 or p[o + 3] == NEVER then
    return 0
  end
  bucket_move(p, i, at)
  p[o + 3] = p[o + 3] - parts
  return parts
end

-- bucket_lower lowers the lows of the spells that have ended after an instant.
local function bucket_lower(p, i, from, parts)
  local o, before = state(i), p.before[i]
  p[o + 5] = max(p[o + 5] - parts, 0)
  if from < p[o + 2] and before then
    before[2] = max(before[2] - parts, 0)
  end
end

-- bucket_drains is how many parts drain in a time, at most those of a full bucket.
local function bucket_drains(p, i, time)
  local drain = p[state(i) + 6]
  return time >= ceil(NEVER / drain) and NEVER or max(time, 0) * drain
end

-- bucket_give takes back what provably is above the level without these units: since they
-- were taken, or since a spell began.
local function bucket_give(p, i, at, taken, units)
  local o, before = state(i), p.before[i] or { 0, 0 }
  local level = bucket_level(p, i, at)
  if level == 0 or taken > at then
    return 0
  end
  local parts, low = bucket_parts(p, i, units), min(p[o + 5], level)
  local back = max(parts - bucket_drains(p, i, at - taken),
    min(parts - bucket_drains(p, i, p[o + 2] - taken), low),
    min(parts - bucket_drains(p, i, before[1] - taken), low, before[2]))
  local given = bucket_pull(p, i, at, min(back, level))
  if given > 0 then
    bucket_lower(p, i, taken, parts)
  end
  return floor(given / p[o + 7])
end

local function bucket_forget(p, i, at, units)
  local parts = bucket_pull(p, i, at, min(bucket_parts(p, i, units), bucket_level(p, i, at)))
  bucket_lower(p, i, -NEVER, parts)
  return ceil(parts / p[state(i) + 7])
end

-- bucket_falls is when at most so many units are used, if more are now.
local function bucket_falls(p, i, at, units)
  local o = state(i)
  return min(at + ceil((bucket_level(p, i, at) - units * p[o + 7]) / p[o + 6]), NEVER - 1)
end
