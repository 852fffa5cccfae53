-- Seats: which page a charge of a keyed pool is taken from.
--
-- The seats of a pool are a sorted set of its keys, by the instant from which the page of
-- each is idle. A key without a seat takes a free one, or the seat of an idle key. If there
-- is neither, it shares a page with other such keys. Keys that the price book lists need no
-- seat.

-- A charge has one of these numbers in place of the most seats.
local PLAIN, LISTED, SEATED, SHARED = -1, 0, -2, -3 -- the last two are those of a receipt

-- idleFrom returns the instant from which a page that the clock is far behind is idle, if
-- what it has counts from now; nil if the clock is not far behind. By its seat, the page is
-- idle from the instant was.
local function idleFrom(key, was, now)
  local head = call('GETRANGE', key, 0, 31)
  local n = #head == 32 and unpack_('<d', head, 25) or 0
  if n % 1 ~= 0 or n < 1 or n > MAX_WINDOWS then
    return now
  end
  local p = doubles(call('GETRANGE', key, 0, front(n) - 1), 1, first(n) + HEAD)
  local latest, long = p[6 + n], p[first(n) + 9]
  if latest - now <= long then
    return nil
  end
  return now + max(was - latest, long)
end

-- seat decides on the page of a charge. It writes nothing.
local function seat(q, now)
  if q.most <= 0 or q.seated or call('ZSCORE', q.seats, q.key) then
    return
  end
  q.seated = true
  local taken = call('ZCARD', q.seats)
  if taken < q.most then
    return
  end
  q.idle = call('ZRANGEBYSCORE', q.seats, '-inf', whole(now), 'LIMIT', 0, min(taken - q.most + 1, 16))
  if taken - #q.idle < q.most then
    return
  end
  q.ahead = {}
  local late = call('ZRANGEBYSCORE', q.seats, '(' .. whole(now + 2 * span(q.c)), '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
  for i = 1, #late, 2 do
    local from = idleFrom(q.beside .. late[i], tonumber(late[i + 1]), now)
    if from then
      q.ahead[#q.ahead + 1] = { from, late[i] }
    end
  end
  q.shared, q.page, q.logs, q.reason = true, q.spare.page, q.spare.logs, q.spare.reason
end

-- take gives the key of a charge its seat until an instant, before its page is written.
local function takeSeat(p, q, now, need)
  for _, a in ipairs(q.ahead or {}) do
    call('ZADD', q.seats, whole(a[1]), a[2])
  end
  for _, key in ipairs(q.idle or {}) do
    call('ZREM', q.seats, key)
    call('DEL', q.beside .. key)
    for l = 1, #q.logs do
      call('DEL', q.beside .. key .. ':log' .. l)
    end
  end
  q.ahead, q.idle = nil, nil
  if q.shared then
    return
  elseif q.most == LISTED then
    call('ZREM', q.seats, q.key)
    return
  elseif q.most == SEATED and not p.new then
    call('ZADD', q.seats, 'XX', whole(need), q.key)
    return
  end
  call('ZADD', q.seats, whole(need), q.key)
  local life = ceil((need - now) / 1000) + 60000
  if call('PTTL', q.seats) < life then
    call('PEXPIRE', q.seats, life)
  end
end
