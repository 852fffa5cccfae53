-- reserve takes every charge of a request, or none.
--
-- KEYS, ARGV: of a request, see the prelude.
-- RETURNS done, now, 1 if granted, charge, window (0 is a block), used, limit,
--   free (2^53 is never), reset, rebased, at, 1 if it is repeated, 2 for a block or 3 for one
--   without a reason, and 4 more if a key shares a page, nonce; then the news of pages.

local now = clock()
local r = request()
local got

if r.look then
  got = receipt(r, now)
  if got and not covers(got, r) then
    return { OTHER_CHARGES }
  end
  if got and got[2] == RELEASED then
    got = nil -- that call never left; this one is another try
  elseif got and has(got, BACK) then
    return { ENDED }
  end
end

local pages, wrong = open(r, now)
if not pages then
  return wrong
end

local all = true
for i = 1, r.n do
  local p = pages[i]
  p.ok = p[6] == 0 or p.at >= p[6]
  for w = 1, p[8] do
    advance(p, w, p.at)
    p.ok = p.ok and fits(used(p, w, p.at), p.c[1], p.c[p.c.w[w] + 2])
  end
  all = all and p.ok
end

local reply
if got or all then
  if not got then
    for i = 1, r.n do
      local p = pages[i]
      for w = 1, p[8] do
        add(p, w, p.at, p.c[1])
      end
      charged(p, p.at)
    end
  end
  local least
  for i = 1, r.n do
    local p = pages[i]
    local tight, has, left
    for w = 1, p[8] do
      local u = used(p, w, p.at)
      local l = p.c[p.c.w[w] + 2] - u
      if not left or l < left then
        tight, has, left = w, u, l
      end
    end
    left = max(left, 0)
    if not least or left < least then
      least = left
      reply = { DONE, now, 1, i, tight, has, p.c[p.c.w[tight] + 2], 0, reset(p, tight, p.at) }
    end
  end
else
  local last
  for i = 1, r.n do
    local p = pages[i]
    if not p.ok then
      local at, w = p.at, 0
      if p[6] ~= 0 and p.at < p[6] then
        at = p[6]
      end
      for k = 1, p[8] do
        local f = free(p, k, p.at, p.c[1], p.c[p.c.w[k] + 2])
        if f == NEVER and r[i].whole then
          f = max(vacancy(now, span(p.c)), p.at + 1)
        end
        if f > at then
          at, w = f, k
        end
      end
      if not last or at > last then
        last = at
        local shown = w
        if w == 0 then
          local left
          for k = 1, p[8] do
            local l = p.c[p.c.w[k] + 2] - used(p, k, p.at)
            if not left or l < left then
              shown, left = k, l
            end
          end
        end
        reply = { DONE, now, 0, i, shown, used(p, shown, p.at), p.c[p.c.w[shown] + 2], at, reset(p, shown, p.at) }
        reply.block = w == 0 and (p.over and 3 or 2)
      end
    end
  end
end
reply[10] = pages.rebased
reply[11] = pages[1].at
for i = 2, r.n do
  reply[11] = max(reply[11], pages[i].at)
end
reply[12] = 0
reply[13] = ''
if reply.block then
  reply[12] = reply.block
elseif got then
  reply[11], reply[12], reply[13] = got[7], 1, got.nonce
end
for i = 1, r.n do
  if r[i].shared and reply[12] < 4 then
    reply[12] = reply[12] + 4
  end
end

local at, days = {}, {}
for i = 1, r.n do
  at[i] = pages[i].at
  days[i] = dayof(r[i].c, at[i])
end
local bad = unsound(r, days)
if bad then
  return bad
end

local granted = all and not got
if granted then
  leave(r, now, pages, at)
end
return finish(reply, r, now, pages, granted)
