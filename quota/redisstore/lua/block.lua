-- block shuts pages until an instant, or opens them. The later of two stands.
--
-- KEYS, ARGV: of a request, see the prelude; then until (0: not given), for how
--   long, 1 to open, and the reason. The first key is where the reasons are kept.
-- RETURNS done, now; then the news of pages.

local now = clock()
local r = request()
local k = 4 + 4 * r.n
local until_, for_, opens, reason = tonumber(ARGV[k + 1]), tonumber(ARGV[k + 2]), ARGV[k + 3] == '1', ARGV[k + 4]

local pages, wrong = open(r, now)
if not pages then
  return wrong
end
local bad = unsound(r, {}, KEYS[1])
if bad then
  return bad
end
if for_ > 0 then
  until_ = now + for_
end

local reply = { DONE, now }
for i = 1, r.n do
  local p = pages[i]
  local stands = p[6] ~= 0 and p.at < p[6]
  local done = true
  if opens then
    p[6] = 0
    if r[i].reason then
      call('DEL', r[i].reason)
    else
      call('HDEL', KEYS[1], p.key)
    end
  elseif until_ > p.at and not (stands and until_ <= p[6]) then
    p[6] = until_ ~= 0 and until_ or 1 -- 0 is open
    if r[i].reason then
      call('SET', r[i].reason, reason, 'PX', ceil((until_ - p.at) / 1000) + 60000)
    else
      call('HSET', KEYS[1], p.key, reason)
      call('PEXPIRE', KEYS[1], 400 * 86400000)
    end
  else
    done = false
  end
  if done then
    p[5] = p.at -- the windows stay behind: nothing was charged
  end
  if done or p.new or p.moved then
    write(p, now, r[i])
  elseif p.newer then
    stamp(p, r[i])
  end
  news(reply, p, i)
end
return reply
