-- look reads pages and changes nothing.
--
-- KEYS, ARGV: of a request, see the prelude. The first key is where the reasons
--   of blocks are kept. Then an instant, or 0.
-- RETURNS done, now; then per charge: known, born, revision, blocked, reason; and
--   per window of it: used, next units, next at (2^53 is never), reset, and those used
--   since that instant; then the news of pages.

local now = clock()
local r = request()
local asked = tonumber(ARGV[5 + 4 * r.n])
local reply = { DONE, now }
local function say(...)
  for _, v in ipairs({ ... }) do
    reply[#reply + 1] = v
  end
end

local pages = {}
for i = 1, r.n do
  local q = r[i]
  local p, wrong = load(q.page, q.c, now, q.text, q.logs, q.old)
  if not p then
    wrong[3] = i
    return wrong
  end
  pages[i] = p
  local at = now_(p, now)
  local shut = p[6] ~= 0 and at < p[6] and p[6] or 0
  local reason = ''
  if shut ~= 0 then
    reason = q.reason and call('GET', q.reason) or not q.reason and call('HGET', KEYS[1], q.page) or ''
  end
  say((p.new and not p.again) and 0 or 1, p[2], p[4], shut, reason)
  for w = 1, p[8] do
    advance(p, w, at)
    local units, when = next_(p, w, at)
    local late, from = 0, 0
    if asked ~= 0 then
      late, from = since(p, w, at, asked)
    end
    if from == NEVER then
      late = used(p, w, at) -- it has left: all that counts is later
    end
    say(used(p, w, at), units, when, reset(p, w, at), late)
  end
end
if missed then
  return { MISSED, missed }
end
for i = 1, r.n do
  news(reply, pages[i], i)
end
return reply
