-- Calendars: a counter and the end of its period; near a boundary its neighbours too.

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
  if at >= after or p.charged >= after then
    return false
  end
  if at >= p[o + 3] - lag then
    return true
  end
  return at >= period(p.c, i, p[o + 3] - 1) - lag
end
