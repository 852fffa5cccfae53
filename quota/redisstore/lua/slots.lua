-- slots renews the slots of receipts, so that they count from now, or gives them back.
--
-- KEYS: of a request for the pages that have slots, see the prelude; then the receipts.
-- ARGV: of the request, whose units do not matter; then 1 to give back; then per receipt its
--   nonce and the number of its charges.
-- RETURNS done, now; 1 per receipt that had a slot until then, else 0; then the news of
--   pages.

local now = clock()
local r = request()
local pages, wrong = open(r, now)
if not pages then
  return wrong
end
local page = {}
for i, name in ipairs(split(r.pools, '\30')) do
  page[name] = pages[i]
  local again = ARGV[5 + 4 * r.n] ~= '1' and r[i].most <= SEATED -- a slot of a key that was lost
  if pages[i].new and not pages[i].again and not again then
    return { FORGOTTEN, r[i].c[3], i }
  end
end
local bad = unsound(r, {})
if bad then
  return bad
end

local at = 5 + 4 * r.n
local done = ARGV[at] == '1'
local reply, kept, any = { DONE, now }, {}, false
for k = r.key, #KEYS do
  local nonce, n = ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 2
  local got, had = read(KEYS[k], n, r.life, now), 0
  if got and got.nonce == nonce then
    local pools, slots, shared = split(split(got.text, '\29')[1], '\30'), marks(got)
    for i = 1, n do
      local p = page[shared[i] and string.match(pools[i], '^[^\31]*') .. '\31\0overflow' or pools[i]]
      if p and slots[i] == TAKEN and got[3 + 3 * i] > 0 then
        had, any = 1, true
        if got[5 + 3 * i] == p[3] then
          give(p, 1, p.at, got[4 + 3 * i], got[3 + 3 * i])
        end
        if done then
          slots[i] = BACK
        else
          add(p, 1, p.at, got[3 + 3 * i])
          got[4 + 3 * i], got[5 + 3 * i] = p.at, p[3]
        end
        charged(p, p.at)
      end
    end
    remark(got, slots)
    if got[2] == EMPTY and not has(got, TAKEN) then
      got[2] = RELEASED
    end
    got[1] = now
    if had == 1 then
      kept[KEYS[k]], got.n = got, n
    end
  end
  reply[#reply + 1] = had
end
if not any then
  return reply -- as if the pages had not been looked at
end
for key, got in pairs(kept) do
  keep(key, got, got.n, ceil(r.life / 1000))
end
return finish(reply, r, now, pages, true)
