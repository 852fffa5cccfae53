-- record charges what is already gone, whatever the limits; once if it has an id.
--
-- KEYS, ARGV: of a request, see the prelude; then when it happened, 0 for
--   now; 1 if a page that was forgotten is to count again; 1 if the units are those that
--   count at least since then, and in that case the number of the window that is meant,
--   per charge, and since when units are among them, 0 for since then; else the generation of
--   the page that granted negative units then, 0 for the oldest units that count.
-- RETURNS done, now; per charge what was recorded: of negative units what a window
--   gave back; then the news of pages.

local function copy(t)
  local c = {}
  for k, v in pairs(t or {}) do
    c[k] = v
  end
  return c
end

-- advanced returns a page whose window i has advanced to an instant. Page p itself stays at its own
-- time, which units of the past do not move: the clock may step back.
local function advanced(p, i, at)
  local q = copy(p)
  q.put, q.log, q.zset = { [i] = p.put[i] and copy(p.put[i]) }, copy(p.log), nil
  advance(q, i, at)
  return q
end

local now = clock()
local r = request()
local past = tonumber(ARGV[5 + 4 * r.n])

r.restore = ARGV[6 + 4 * r.n] == '1'
r.least = ARGV[7 + 4 * r.n] == '1'

if r.look then
  local got = receipt(r, now)
  if got and not covers(got, r) then
    return { OTHER_CHARGES }
  end
  if got and got[2] ~= RELEASED then -- that call never left; this one is another try
    local reply = { DONE, now }
    for i = 1, r.n do
      reply[2 + i] = r[i].c[1] < 0 and got[5 + 3 * i] or r[i].c[1]
    end
    return reply
  end
end

local pages, wrong = open(r, now)
if not pages then
  return wrong
end
local at, days, recorded = {}, {}, {}
local generation = r.least and 0 or tonumber(ARGV[8 + 4 * r.n])
local some = not r.least and generation == 0
for i = 1, r.n do
  local p, units = pages[i], r[i].c[1]
  at[i], recorded[i] = p.at, units
  if units < 0 then
    local given = 0
    for w = 1, generation == 0 and p[8] or 0 do
      given = max(given, forget(p, w, p.at, -units))
    end
    for w = 1, generation == p[3] and p[8] or 0 do
      given = max(given, give(p, w, p.at, past, -units))
    end
    some = some or given > 0
    recorded[i] = 0 - given -- never -0, which is no integer to HINCRBY
  else
    if past ~= 0 and past < p.at then
      at[i] = past
    end
    if r.least then
      local w = tonumber(ARGV[7 + 4 * r.n + i])
      local q = advanced(p, w, p.at)
      local has, from = since(q, w, p.at, at[i])
      local before = tonumber(ARGV[8 + 5 * r.n])
      if before ~= 0 and before < at[i] and from < NEVER then
        local there
        has, there = since(q, w, p.at, before)
        if there == NEVER then
          has = used(q, w, p.at) -- it has left: all that counts is later
        end
      end
      units = from < NEVER and max(units - has, 0) or 0
      at[i], recorded[i] = units > 0 and from or p.at, units
      some = some or units > 0
    end
    for w = 1, p[8] do
      if at[i] < p[5] then
        advance(p, w, p[5]) -- by the page's time: a block moves that, and no window
      end
      add(p, w, at[i], units)
    end
  end
  charged(p, max(at[i], p[5]))
  days[i] = dayof(r[i].c, at[i])
end
local bad = unsound(r, days)
if bad then
  return bad
end

if some then
  leave(r, now, pages, at, recorded)
end
return finish({ DONE, now, unpack(recorded) }, r, now, pages, some)
