-- Places: which page a charge of a family's member is taken from.
--
-- Each partition of a family has a hash beside its members' pages:
--
--   an instant  how many members have a place until then
--   moved       1 if the family has other partitions now: no page is made here
--   n, next     how many have one, and the first of those instants, or an earlier one
--   l and an identity   how a page with it is laid out: revision, codes, text. A page that
--               is stored small does not say
--
-- Members lose their places a slice at a time, so the hash stays small: a slice is about
-- a fiftieth of the windows. A page has its place until the end of the slice in which
-- nothing of it counts any more, and expires then. So nobody has to look for pages that
-- are idle, and no page that counts makes room for another one. A page says until when it
-- has its place. Other counts of a partition can only be too high, and for a window: the
-- clock had been far ahead, or the hash has come back from another server.
--
-- A page with up to SMALL windows that are all counters, whose clock was not set back, is
-- stored small: doubles identity,
-- born, and the instant of its last charge, negative if it has no place; then per window
-- previous and current.

-- placed reports whether a page has a place.
local function placed(p, now)
  return p[10] > now and p[10] - now <= 3 * p[9]
end

-- recount forgets the places that have ended, and gives those of a clock that had been far
-- ahead an end. It returns how many there are.
local function recount(now, long)
  local all, n, first_, ahead = call('HGETALL', members.seats), 0, NEVER, 0
  for k = 1, #all, 2 do
    local till = tonumber(all[k])
    if till and till - now > 3 * long then
      ahead = ahead + all[k + 1]
    elseif till and till > now then
      n, first_ = n + all[k + 1], min(first_, till)
    end
    if till and (till <= now or till - now > 3 * long) then
      call('HDEL', members.seats, all[k])
    end
  end
  if ahead > 0 then
    call('HINCRBY', members.seats, whole(now + long), whole(ahead))
    n, first_ = n + ahead, min(first_, now + long)
  end
  call('HSET', members.seats, 'n', whole(n), 'next', whole(first_))
  return n
end

-- room reports whether a partition has a place for a member that has none.
local function room(q, now, long)
  local got = call('HMGET', members.seats, 'n', 'next')
  if tonumber(got[1] or 0) < q.most then
    return true
  end
  local next_ = tonumber(got[2] or 0)
  if next_ > now and next_ - now <= 3 * long then
    return false
  end
  return recount(now, long) < q.most
end

-- share makes the limits of a charge those of the page that new keys of a partition share:
-- its part of each. All partitions together have the limit. It returns whether the units
-- fit in the whole of each.
local function share(c)
  local whole_ = true
  for i = 1, c.n do
    local at = c.w[i] + 2
    whole_ = whole_ and c[1] <= c[at]
    c[at] = floor(c[at] / members.parts) + (members.index < c[at] % members.parts and 1 or 0)
  end
  return whole_
end

-- vacancy returns when the next place of a partition becomes free, if its members are idle.
-- A call that is too large for the shared page can only wait for a place.
local function vacancy(now, long)
  recount(now, long)
  return max(tonumber(call('HGET', members.seats, 'next')), now)
end

-- takePlace sees to it that the page of a member has its place for as long as it counts,
-- and expires then, before it is written. It returns whether the expiry has changed.
local function takePlace(p, q, now, need)
  local till = ceil(need / members.slice) * members.slice
  local has, want = p[10], till
  if q.shared or q.most == LISTED then
    want = 0
  end
  local changed = p.new or p[7] ~= till
  p[7], p[10] = till, want
  if has ~= want then
    local more = want ~= 0 and 1 or 0
    if want ~= 0 then
      call('HINCRBY', members.seats, whole(want), 1)
    end
    if has ~= 0 then
      local left = call('HINCRBY', members.seats, whole(has), -1)
      more = left < 0 and more or more - 1
      if left <= 0 then
        call('HDEL', members.seats, whole(has))
      end
    end
    if more ~= 0 then
      call('HINCRBY', members.seats, 'n', more)
    end
    local next_ = want ~= 0 and call('HGET', members.seats, 'next')
    if want ~= 0 and (not next_ or tonumber(next_) > want) then
      call('HSET', members.seats, 'next', whole(want))
    end
  end
  return changed
end

-- lasts keeps the hash of a partition for as long as a page that expires at an instant.
local function lasts(till, now, long)
  local life = ceil((till - now) / 1000) + 1000
  if call('PTTL', members.seats) < life then
    call('PEXPIRE', members.seats, life)
  end
  if call('HLEN', members.seats) > 300 then -- most have ended
    recount(now, long)
  end
end

-- isSmall reports whether a page can be stored small.
local function isSmall(p)
  local small = members and p[8] <= SMALL and p[6] == 0 and p[1] > 0 and p.charged > 0 -- its sign says something else
  for i = 1, small and p[8] or 0 do
    small = small and kindof(p[state(i) + 1]) == COUNTER
  end
  return small
end

-- describe notes how a small page is laid out, where nobody has.
local function describe(p, q)
  local codes = {}
  for i = 1, p[8] do
    codes[i] = p[state(i) + 1]
  end
  call('HSETNX', members.seats, 'l' .. whole(p.c[5]),
    pack('<' .. string.rep('d', p[8] + 1), p[4], unpack(codes)) .. q.text)
end

-- shrink is a page as it is stored small.
local function shrink(p)
  local at = p.charged
  for i = 1, p[8] do
    at = max(at, p[state(i) + 3] * p[state(i) + 6])
  end
  local b = { p.c[5], p[2], p[10] ~= 0 and at or -at }
  for i = 1, p[8] do
    counter_advance(p, i, at)
    b[2 + 2 * i], b[3 + 2 * i] = p[state(i) + 4], p[state(i) + 5]
  end
  return pack('<' .. string.rep('d', #b), unpack(b))
end
