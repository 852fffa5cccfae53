-- Counters: the estimate from two fixed windows.

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
