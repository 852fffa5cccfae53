-- Buckets: a level that drains. It is not brought to the present until it changes.

-- bucket_level is the level at an instant that is not before that of the last change.
local function bucket_level(p, i, at)
  local o = state(i)
  local level, ago = p[o + 3], at - p[o + 4]
  if level == 0 or ago >= ceil(level / p[o + 6]) then
    return 0
  end
  return level - ago * p[o + 6]
end

local function bucket_add(p, i, at, units)
  local o = state(i)
  if units > 0 then
    at = max(at, p[o + 4])
    local level = bucket_level(p, i, at)
    if units > floor((NEVER - level) / p[o + 7]) then
      level = NEVER
    else
      level = level + units * p[o + 7]
    end
    p[o + 3], p[o + 4] = level, at
  end
end

-- bucket_pull takes units out at an instant; a full bucket has lost count.
local function bucket_pull(p, i, at, units)
  local o = state(i)
  if units <= 0 or p[o + 3] == NEVER then
    return 0
  end
  p[o + 3], p[o + 4] = max(bucket_level(p, i, at) - units * p[o + 7], 0), at
  return units
end

-- bucket_give takes back units of which none can have drained since they were taken.
local function bucket_give(p, i, at, taken, units)
  local o = state(i)
  local ago = at - taken
  if ago < 0 or ago >= ceil(NEVER / p[o + 6]) then
    return 0
  end
  local left = units - ceil(ago * p[o + 6] / p[o + 7])
  return bucket_pull(p, i, at, min(left, floor(bucket_level(p, i, at) / p[o + 7])))
end

-- bucket_falls is when at most so many units are used, if more are now.
local function bucket_falls(p, i, at, units)
  local o = state(i)
  return min(at + ceil((bucket_level(p, i, at) - units * p[o + 7]) / p[o + 6]), NEVER - 1)
end
