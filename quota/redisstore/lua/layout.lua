-- Pages: time, other layouts, and what is written.

-- restart gives window i the state of an empty one that begins now.
local function restart(p, i, now)
  local o = state(i)
  empty(p, i)
  local region = p[o + 2]
  begin(p, i, now)
  p[o + 2] = kindof(p[o + 1]) == RING and region or 0
end

-- move moves to an instant all that was used when the page was last charged, and the
-- block by so much. Time that only a block has seen since does not count.
local function move(p, to, by)
  local was = p.charged
  p.charged = to
  for i = 1, p[8] do
    local units = used(p, i, was)
    restart(p, i, to)
    add(p, i, to, units)
  end
  if p[6] ~= 0 and p[5] < p[6] then
    p[6] = p[6] + by
    p[6] = p[6] ~= 0 and p[6] or 1 -- 0 is open
  else
    p[6] = 0
  end
  p[5] = to
  p[3] = p[3] + 1
  p.moved = true
end

-- charged notes that the windows of a page have come to an instant, and the page with
-- them.
local function charged(p, at)
  p[5] = max(p[5], at)
  p.charged = max(p.charged, at)
end

-- returns is the longest step forward that is not taken for the return of a clock that was
-- set back: half of the way, or the windows. Nil if the clock was not set back.
local function returns(p)
  return p[1] < 0 and max(p[9], ceil(-p[1] / 2) - 1) or nil
end

-- now_ returns the instant that counts for a page, and whether all that was used has moved:
-- time only moves forward, but for a page that is more than a window ahead, and back to
-- where that was if the clock returns.
local function now_(p, clock)
  local step, most = clock - p[5], returns(p)
  if most and step > most then
    local by = min(step, -p[1])
    -- after so long nothing counts any more, wherever it was used on the way
    local to = step + p[1] >= 2 * p[9] and p[5] + by or clock
    p[1] = p[1] + by < 0 and p[1] + by or VERSION
    move(p, to, by)
    return clock, true
  elseif step >= 0 then
    return clock, false
  elseif -step <= p[9] then
    return p[5], false
  end
  p[1] = min(p[1], 0) + step
  move(p, clock, step)
  return clock, true
end

-- shut blocks a page from now on. The later of two blocks stands.
local function shut(p, now, till)
  p[5] = max(p[5], now)
  if p[6] == 0 or till > p[6] then
    p[6] = till ~= 0 and till or 1 -- 0 is open
  end
end

-- known is what page.go calls so: the most that a window of a page counts, its longest
-- ring and how far that looks back, and until when the units may be sent. c is the charge
-- that laid the page out.
local function known(p, c, at)
  local most, longest, back, sent = 0, nil, 0, NEVER
  for j = 1, p[8] do
    local o, w = state(j), c.w[j]
    local kind, by = kindof(p[o + 1]), at
    advance(p, j, at)
    most = max(most, used(p, j, at))
    if kind == RING then
      if p[o + 6] * p[o + 7] > back then
        longest, back = j, p[o + 6] * p[o + 7]
      end
      local late = c[w + 6]
      by = min(reset(p, j, at) - p[o + 6] * p[o + 7] + late, at + MAX_SLACK + late)
    elseif kind == LOG then
      by = reset(p, j, at) - p[o + 6]
    elseif kind == CALENDAR then
      by = at + MAX_SLACK
    end
    sent = min(sent, by)
  end
  return most, longest, back, most > 0 and sent or at
end

-- counts_from is the instant at which window i must get units that are sent by an instant.
local function counts_from(q, i, at, sent)
  local o, c = state(i), q.c
  local lag = c[c.w[i] + 6]
  local kind = kindof(q[o + 1])
  if kind == RING then
    return (ceil(sent / q[o + 6]) - 1 - lag / q[o + 6]) * q[o + 6]
  elseif kind == CALENDAR and sent <= q[o + 4] - lag then
    return at
  end
  return sent
end

-- oldest is the earliest instant whose units count at at.
local function oldest(q, i, at)
  local o = state(i)
  local kind = kindof(q[o + 1])
  if kind == RING then
    return (floor(at / q[o + 6]) - q[o + 7]) * q[o + 6]
  end
  return kind == LOG and at - q[o + 6] + 1 or at
end

-- relay gives a page the windows of a price book with a higher revision. One that
-- stays as it is keeps its state; a ring that looks no farther back than one
-- there was gets its buckets, each by its latest instant; anything else carries
-- the most that was used. Units that may still be sent count from when that is over:
-- the page is ahead until then. See Page.LayOut.
function relay(p, c, now, text)
  local at, rebased = now_(p, now)
  local q = { p[1], p[2], p[3] + 1, c[2], max(p[5], at), p[6], p[7], c.n, 0, p[10] }
  q.key, q.c, q.logs, q.new, q.again, q.moved = p.key, c, p.logs, true, true, true
  q.log, q.rebased, q.seen, q.charged = {}, rebased, p.seen, p.charged
  q.over = p[6] == 0 or p[5] >= p[6] -- the last block, so its reason is that of no other one
  layout(q, at, text)
  local left, kept = {}, {}
  for j = 1, p[8] do
    left[j] = p[state(j) + 1]
  end
  for i = 1, c.n do
    local o, code = state(i), c[c.w[i] + 1]
    local j = 1
    while j <= p[8] and left[j] ~= code do
      j = j + 1
    end
    if j <= p[8] then
      left[j], kept[i] = nil, j
      for k = 3, STATE do
        q[o + k] = p[state(j) + k]
      end
      if kindof(code) == RING then
        local first, last = p[state(j) + 3] - p[state(j) + 7], p[state(j) + 3] - 1
        local b, units = occupied(p, j, first, last)
        while b do
          setslot(q, i, b, units)
          b, units = occupied(p, j, b + 1, last)
        end
      elseif kindof(code) == BUCKET then
        q[o + 2], q.before[i] = p[state(j) + 2], p.before[j]
      elseif kindof(code) == LOG then
        q.log[i] = entries(p, j)
        for k = 1, #q.log[i], 2 do
          log_set(q, i, q.log[i][k], 0, q.log[i][k + 1])
        end
      end
    end
  end

  local most, longest, back, sent = known(p, p.c, at) -- only now, because what stays is not to be advanced
  local on, has = at, {}
  for i = 1, c.n do
    local o = state(i)
    has[i] = 0
    if kept[i] then
      has[i] = used(p, kept[i], at)
    elseif kindof(q[o + 1]) == RING and longest and back >= q[o + 6] * q[o + 7] then
      local from, last = state(longest), p[state(longest) + 3]
      local width, late = p[from + 6], p.c[p.c.w[longest] + 6]
      local b, units = occupied(p, longest, last - p[from + 7], last)
      while b do
        local stop = (b + 1) * width
        local x = max(min(at, stop - 1), counts_from(q, i, at, min(sent, stop + late)))
        if floor(x / q[o + 6]) >= floor(at / q[o + 6]) - q[o + 7] then
          has[i] = has[i] + units
          add(q, i, x, units)
        end
        on = max(on, x)
        b, units = occupied(p, longest, b + 1, last)
      end
    else
      local x = max(at, counts_from(q, i, at, sent))
      add(q, i, x, most)
      on = max(on, x)
    end
  end
  for i = 1, on > at and c.n or 0 do
    advance(q, i, on)
    if kindof(q[state(i) + 1]) ~= CALENDAR then
      add(q, i, oldest(q, i, on), max(has[i] - used(q, i, on), 0)) -- they have left at on, which the clock has not reached
    else
      local _, stop = period(c, i, at)
      if on >= stop then
        shut(q, on, on + 1) -- until the clock has come so far, calls belong to the period that ends
      end
    end
  end
  if on > at then
    charged(q, on)
  end
  if q[5] - now > q[9] then -- too far to wait for
    if at - now > MAX_SLACK then -- the clock was behind before
      q[1] = min(q[1], 0) + now - at
    end
    move(q, now, now - at)
    rebased, sent = true, min(sent, now + MAX_SLACK)
    if most > 0 and sent > now then
      shut(q, now, sent + q[9])
    end
  end
  q.rebased = rebased
  return q
end

-- live is what steady needs of a page.
local function live(p)
  local n, c = p[8], p.c
  local b = { c[5], p[7] - p.margin - p[9], p[2], n, p[3] }
  b[6 + n] = p[5]
  for i = 1, n do
    local o = state(i)
    local kind = kindof(p[o + 1])
    local stop, reset_, x, y = -NEVER, 0, 0, 0
    if kind == RING then
      stop, reset_ = (p[o + 3] + 1) * p[o + 6], (p[o + 3] + p[o + 7] + 1) * p[o + 6]
      x, y = p[o + 4], p[o + 5]
    elseif kind == CALENDAR then
      local lag = c[c.w[i] + 6]
      stop, reset_, x = p[o + 4] - lag, p[o + 4], p[o + 5]
      if p[5] < p[o + 3] + lag then
        stop = -NEVER
      end
    elseif kind == COUNTER then
      stop = (p[o + 3] + 1) * p[o + 6]
      reset_, x, y = stop + p[o + 6], p[o + 5], p[o + 4]
    elseif kind == BUCKET and p.before[i] then
      x, y = unpack(p.before[i])
    end
    b[2] = min(b[2], stop)
    b[5 + i], b[5 + n + 2 * i], b[6 + n + 2 * i] = reset_, x, y
  end
  if p[6] ~= 0 and p[5] < p[6] or p.charged < p[5] then
    b[2] = -NEVER
  elseif p[1] < 0 then
    b[2] = min(b[2], p[5] + returns(p) + 1)
  end
  if members and p[10] == 0 then
    b[1] = b[1] + 1 -- a charge that needs a place is not for steady
  end
  return pack('<' .. string.rep('d', first(n)), unpack(b, 1, first(n)))
end

-- write stores a page, and sees to it that it is kept for as long as it counts.
local function write(p, now, q)
  local keep = p.moved
  local need = max(p[5] + p[9], p[6], members and p[6] or now)
  for i = 1, p[8] do
    if kindof(p[state(i) + 1]) == BUCKET then -- it holds what is in it for as long as that takes
      need = max(need, reset(p, i, p[5]))
    end
  end
  if members then
    keep = takePlace(p, q, now, need) or keep
  elseif q.seats then
    takeSeat(p, q, now, need)
  end
  if not members and (p.new or p[7] - need < p.margin) then
    p[7] = max(p[7], need + 2 * p.margin) -- others may remember that it must be there until then
    keep = true
  end
  p.seen = { p[3], p[5] }
  if isSmall(p) then
    if p.new or p.renamed then
      describe(p, q)
    end
    call('SET', p.key, shrink(p), 'PX', max(1, ceil(max(p[7] - now, p[9]) / 1000))) -- the clock may step back to what counts no more
    for _, key in pairs(p.logs) do
      call('DEL', key) -- of other windows that it had
    end
    if keep then
      lasts(p[7], now, p[9])
    end
    return
  end
  local n = HEAD + STATE * p[8]
  local head = live(p)
  p[5] = p.charged
  head = head .. pack('<' .. string.rep('d', n), unpack(p, 1, n))
  p[5] = p.seen[2]
  if p.new or p.small then
    for _, key in pairs(p.logs) do
      call('DEL', key) -- one may have outlived its page
    end
    local text = p.text or q.text
    head = head .. pack('<I2', #text) .. text
    call('SET', p.key, head .. string.rep('\0', (p.size or 0) - #head))
  else
    call('SETRANGE', p.key, 0, head)
  end
  for i, put in pairs(p.put) do
    local region = p[state(i) + 2]
    local bytes = slotsize(p, i)
    for k, units in pairs(put) do
      call('SETRANGE', p.key, region + bytes * k, pack(bytes == 4 and '<I4' or '<d', units))
    end
  end
  if p.zset then
    for _, z in ipairs(p.zset) do
      call(unpack(z))
    end
  end
  if keep or p.zset then -- a log that was empty has lost its expiry
    local ms = max(1, ceil(max(p[7] - now + (p[1] < 0 and min(-p[1], RETURN) + p[9] or 0), p[9]) / 1000))
    call('PEXPIRE', p.key, ms)
    for _, key in pairs(p.logs) do
      call('PEXPIRE', key, ms)
    end
    if members then
      lasts(p[7], now, p[9])
    elseif keep and q.zone ~= '' then
      call('HSET', KEYS[2], string.match(p.key, '}:page:([^:]*)'), q.zone)
    end
  end
end

-- stamp stores a revision whose windows are those that a page has, and nothing else
-- of the page.
local function stamp(p, q)
  call('SETRANGE', p.key, 0, pack('<d', p.c[5] + (members and not isSmall(p) and p[10] == 0 and 1 or 0)))
  if isSmall(p) then
    return describe(p, q)
  end
  call('SETRANGE', p.key, 8 * (first(p[8]) + 3), pack('<d', p[4]))
end

-- news adds to a reply what is to be remembered of the page of charge i, as it is
-- stored: charge, born, expires, generation, latest.
local function news(reply, p, i)
  local seen, n = p.seen, #reply
  if seen then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = i, p[2], p[7], seen[1], seen[2]
  end
end
