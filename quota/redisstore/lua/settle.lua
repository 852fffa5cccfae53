-- settle corrects a reservation to what the call really cost, once.
--
-- KEYS, ARGV: of a request, see the prelude; the units of each charge are what it
--   is settled to: of a slot 0 to give it back. labels are those of the receipt.
--   For a part of a reservation, which has a receipt of its own from then on: one more
--   key, of that receipt; and doubles: per charge the units of the part, and how many
--   more calls the spend counts; and the nonce of the part. Both are '' for the whole. Then
--   doubles: per charge 1 if its units move from the start of the call to now.
-- RETURNS done, now, back, left, charged, repeated, then the state of pages; or gone.

-- correct changes an existing count of spend. It does not recreate a lost count, and takes
-- nothing from what other callers spent since. Only corrections have a count below 0, and
-- their labels are no reservation's.
local function correct(key, field, by)
  local has = call('HGET', key, field)
  if not has then
    return
  end
  by = max(by, -max(tonumber(has), 0))
  if by ~= 0 then
    call('HINCRBY', key, field, by)
  end
end

local now = clock()
local r = request()
local got = receipt(r, now)
if not got or got.nonce ~= r.nonce then
  return { GONE }
end
local part, nonce = ARGV[5 + 4 * r.n], ARGV[6 + 4 * r.n]
part = part ~= '' and part
if part then
  part = doubles(part, 1, 2 * r.n)
  local done = read(KEYS[r.key], r.n, r.life, now)
  if got[2] ~= 0 or done and done.nonce ~= nonce then
    return { GONE }
  end
  got = done or got
  for i = 1, r.n do
    got[3 + 3 * i] = part[2 * i - 1]
  end
end
if got[2] ~= 0 then
  return { DONE, now, got[3], got[4], got[5], 1 }
end

local pages, wrong = open(r, now)
if not pages then
  return wrong
end
local back, left, more = 0, 0, 0
local ends = doubles(ARGV[7 + 4 * r.n], 1, r.n)
local slots = marks(got)
local days = {}
for i = 1, r.n do
  days[i] = 1
  local p, units = pages[i], r[i].c[1]
  if p.new and r[i].most == PLAIN then -- it went between the questions
    return { FORGOTTEN, got[5 + 3 * i], i }
  end
  local over = got[3 + 3 * i] - units
  if r[i].c.slot then
    if slots[i] ~= TAKEN or units > 0 then
      over = 0
    else
      slots[i] = BACK
    end
    p.stays = over == 0
  end
  if p.new then -- a key's, which was idle
    left = left + max(over, 0)
  else
    local given, units = 0, max(-over, 0)
    if ends[i] == 1 then
      over, units = got[3 + 3 * i], r[i].c[1]
    end
    over = max(over, 0)
    if over > 0 and got[5 + 3 * i] == p[3] then
      charged(p, p.at)
      for w = 1, p[8] do
        given = max(given, give(p, w, p.at, got[4 + 3 * i], over))
      end
    end
    if units > 0 then
      for w = 1, p[8] do
        add(p, w, p.at, units)
      end
      charged(p, p.at)
    end
    back, left, more = back + max(given - units, 0), left + over - given, more + max(units - given, 0)
  end
end
local bad = unsound(r, days)
if bad then
  return bad
end

for i = 1, r.n do
  local key = r[i].spend[1]
  if key then
    local was, units = got[3 + 3 * i], r[i].c[1]
    local labels = r.labels
    if call('HEXISTS', key, 'u' .. labels) == 0 then
      labels = OTHER_LABELS
    end
    correct(key, 'u' .. labels, units - was)
    local calls = units == 0 and was > 0 and -1 or 0
    if part then
      calls = part[2 * i]
    end
    if calls ~= 0 then
      correct(key, 'c' .. labels, calls)
    end
  end
end
for i = 1, r.n do
  if not pages[i].new and not pages[i].stays then
    write(pages[i], now, r[i])
  end
end
local released = true
for i = 1, r.n do
  released = released and (r[i].c.slot or r[i].c[1] == 0)
end
remark(got, slots)
if released then
  released = has(got, TAKEN) and EMPTY or RELEASED
end
got[2], got[3], got[4], got[5] = released or 1, back, left, more
if part then
  got.nonce, got[1] = nonce, now
  keep(KEYS[r.key], got, r.n, ceil(r.life / 1000))
else
  keep(KEYS[1], got, r.n, call('PTTL', KEYS[1]))
end
local reply = { DONE, now, back, left, more, 0 }
for i = 1, r.n do
  news(reply, pages[i], i)
end
return reply
