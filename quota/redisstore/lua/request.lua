-- The charges of a request, its receipt and its spend.

-- KEYS: the receipt, the pools; then per charge its page, a spend key per day, its
-- logs; of a keyed pool also its seats, and, but for a settlement, the reason of the
-- page's block, the page that new keys share, the reason of its block, and its logs.
-- ARGV: meta, nonce, pools, labels; then per charge: the charge, its layout as
-- text, the charge that laid the page out or '', the zone of its days or ''.
-- meta is doubles: the number of charges, 1 if there is an id, 1 if its receipt is
-- to be looked for, the life of a receipt, 1 if the page is that of a family's member;
-- then per charge the number of its logs; then per charge the most seats of its pool, or
-- what seat.lua has instead of that; of a member also the partitions of the family, the
-- length of a slice, and which of the partitions it is in. In pools, the key of a keyed pool follows its name.

local function request()
  local meta = doubles(ARGV[1], 1, floor(#ARGV[1] / 8))
  local r = { n = meta[1], id = meta[2] == 1, look = meta[3] == 1, life = meta[4], member = meta[5] == 1, nonce = ARGV[2], pools = ARGV[3], labels = ARGV[4] }
  local key = 3
  for i = 1, r.n do
    local c = charge(ARGV[1 + 4 * i])
    local old = ARGV[3 + 4 * i]
    local logs, spend = {}, {}
    local page = KEYS[key]
    for d = 1, c.days do
      spend[d] = KEYS[key + d]
    end
    key = key + 1 + c.days
    for l = 1, meta[5 + i] do
      logs[l] = KEYS[key]
      key = key + 1
    end
    local q = { page = page, c = c, text = ARGV[2 + 4 * i], zone = ARGV[4 + 4 * i], old = old ~= '' and charge(old) or nil, logs = logs, spend = spend }
    q.most = meta[5 + r.n + i]
    if q.most >= LISTED or q.most == SEATED then
      q.seats, key = KEYS[key], key + 1
      q.beside, q.key = string.match(page, '^([^}]*}:page:[^:]*:key:)(.*)$')
    end
    if q.most >= LISTED then
      local spare = { logs = {} }
      q.reason, spare.page, spare.reason, q.spare = KEYS[key], KEYS[key + 1], KEYS[key + 2], spare
      key = key + 3
      for l = 1, #logs do
        spare.logs[l], key = KEYS[key], key + 1
      end
    end
    r[i] = q
  end
  if r.member then
    members = { seats = r[1].seats, parts = meta[6 + 2 * r.n], slice = meta[7 + 2 * r.n], index = meta[8 + 2 * r.n] }
  end
  r.key = key -- the first of further keys
  return r
end

-- open loads the pages of a request and brings them to the instant that counts.
local function open(r, now)
  local pages = { rebased = 0 }
  for i = 1, r.n do
    local q = r[i]
    if not r.member then
      seat(q, now)
    end
    local p, wrong
    if q.c.n == 0 then -- settled after its page has gone, with nothing that counts
      p = fresh(q.page, q.c, now, q.text, q.logs)
    else
      p, wrong = load(q.page, q.c, now, q.text, q.logs, q.old, r.restore)
    end
    if r.member and p and not q.seated then
      q.seated = true
      if p.new and call('HEXISTS', members.seats, 'moved') == 1 then
        return nil, { MOVED }
      end
      if q.most ~= LISTED and not placed(p, now) and not room(q, now, span(q.c)) then
        q.shared, q.page, q.logs = true, q.spare.page, q.spare.logs
        q.whole = share(q.c)
        p, wrong = load(q.page, q.c, now, q.text, q.logs, q.old, r.restore)
      end
    end
    if not p then
      wrong[3] = i
      return nil, wrong
    end
    local at, rebased = now_(p, now)
    p.at = at
    p.margin = r.member and 0 or MARGIN
    if rebased or p.rebased then
      pages.rebased = 1
    end
    pages.moved = pages.moved or p.moved
    pages[i] = p
  end
  return pages
end

-- finish stores the pages of a request, and adds the news of them to its reply. If it has
-- charged nothing, it stores only what they had to become.
local function finish(reply, r, now, pages, charges)
  if not charges and pages.moved then
    pages = open(r, now) -- as they were before their windows were advanced to be asked
  end
  for i = 1, r.n do
    local p = pages[i]
    if charges or p.moved then
      write(p, now, r[i])
    elseif p.newer then
      stamp(p, r[i])
    end
    news(reply, p, i)
  end
  return reply
end

-- unsound returns what keeps a request from being written: the caller did not send a
-- period, or a hash that is to be written is something else. Found while writing, that
-- would leave half of a reservation behind. days are the numbers of the days of spend, by
-- charge.
local function unsound(r, days, ...)
  if missed then
    return { MISSED, missed }
  end
  local keys = { KEYS[2], ... }
  for i = 1, r.n do
    keys[#keys + 1] = r[i].spend[days[i]]
  end
  for _, key in ipairs(keys) do
    local is = call('TYPE', key).ok
    if is ~= 'hash' and is ~= 'none' then
      return foreign(key, 'a ' .. is, 'a hash')
    end
  end
end

-- count adds units to the spend of labels. It stops where a sum of units does.
local function count(key, labels, units)
  if call('HINCRBY', key, 'u' .. labels, units) > MOST then
    call('HSET', key, 'u' .. labels, string.format('%.0f', MOST))
  end
end

-- tally counts spend on the day of an instant, and returns the day's key.
local function tally(q, at, labels, units, calls)
  if q.c.days == 0 then
    return ''
  end
  local key = q.spend[dayof(q.c, at)]
  count(key, labels, units)
  if call('HINCRBY', key, 'c' .. labels, calls) == calls then -- new, it seems
    if call('HLEN', key) > 2 * MAX_LABELS and labels ~= OTHER_LABELS then
      call('HDEL', key, 'u' .. labels, 'c' .. labels)
      count(key, OTHER_LABELS, units)
      call('HINCRBY', key, 'c' .. OTHER_LABELS, calls)
    end
    call('PEXPIRE', key, SPEND_LIFE)
  end
  return key
end

-- RELEASED is a receipt settled to nothing: its id may be tried again. One that still has
-- a slot is EMPTY.
local RELEASED, EMPTY = 2, 3

local MAX_CHARGES = 16 -- of a receipt

-- A slot has one of these in the place of its spend key: it is taken, or was given back.
local TAKEN, BACK = 'slot', 'back'

-- A receipt is the nonce; doubles: made, settled (0, 1, RELEASED or EMPTY), back, left, charged, and per
-- charge units, instant, generation; and a text: pools, labels, spend keys. A \31 follows
-- the spend key of a charge on the page that new keys share.
-- Negative units are never settled: instead of a generation they have what was recorded.

local function leave(r, now, pages, at, recorded)
  local numbers = { now, 0, 0, 0, 0 }
  local days = {}
  for i = 1, r.n do
    local k = 5 + 3 * (i - 1)
    local units = recorded and recorded[i] or r[i].c[1]
    numbers[k + 1], numbers[k + 2], numbers[k + 3] = r[i].c[1], at[i], r[i].c[1] < 0 and units or pages[i][3]
    days[i] = r[i].c.slot and TAKEN or r.least and units == 0 and '' or tally(r[i], at[i], r.labels, units, 1)
    days[i] = days[i] .. (r[i].shared and '\31' or '')
  end
  if r.id then
    local head = pack('<' .. string.rep('d', #numbers), unpack(numbers))
    call('SET', KEYS[1], r.nonce .. head .. table.concat({ r.pools, r.labels, table.concat(days, '\30') }, '\29'),
      'PX', ceil(r.life / 1000))
  end
end

-- read reads the receipt of a key, of so many charges, or returns nil.
local function read(key, charges, life, now)
  local s = call('GET', key)
  if not s then
    return nil
  end
  local made = unpack_('<d', s, 17)
  if now - made > life then
    return nil
  end
  local n = 5 + 3 * charges
  if #s < 16 + 8 * n then
    return { nonce = '', text = '' } -- of fewer charges
  end
  local got = doubles(s, 17, n)
  got.nonce, got.text = string.sub(s, 1, 16), string.sub(s, 17 + 8 * n)
  return got
end

-- keep stores a receipt of so many charges, for so many milliseconds.
local function keep(key, got, charges, ms)
  local n = 5 + 3 * charges
  call('SET', key, got.nonce .. pack('<' .. string.rep('d', n), unpack(got, 1, n)) .. got.text, 'PX', max(ms, 1))
end

local function split(s, mark)
  local all = {}
  for part in string.gmatch(s .. mark, '(.-)' .. mark) do
    all[#all + 1] = part
  end
  return all
end

-- marks returns the spend keys of a receipt, or what it has in their place, and which
-- charges are on the page that new keys share. remark changes the first.
local function marks(got)
  local all, shared = split(split(got.text, '\29')[3] or '', '\30'), {}
  for i, mark in ipairs(all) do
    local key, cut = string.gsub(mark, '\31$', '')
    all[i], shared[i] = key, cut > 0
  end
  return all, shared
end

local function remark(got, all)
  local text, _, shared = split(got.text, '\29'), marks(got)
  for i, is in ipairs(shared) do
    all[i] = all[i] .. (is and '\31' or '')
  end
  got.text = table.concat({ text[1], text[2], table.concat(all, '\30') }, '\29')
end

-- has reports whether a receipt has a slot that is taken, or was given back.
local function has(got, mark)
  for _, m in ipairs(marks(got)) do
    if m == mark then
      return true
    end
  end
  return false
end

-- withoutSlots is a receipt without its slots, for a request that may be covered by it.
local function withoutSlots(got, pools, slots)
  local rest, names = { got[1], got[2], got[3], got[4], got[5], nonce = got.nonce }, {}
  for i, name in ipairs(pools) do
    if slots[i] ~= TAKEN and slots[i] ~= BACK then
      names[#names + 1] = name
      for k = 3, 5 do
        rest[#rest + 1] = got[k + 3 * i]
      end
    end
  end
  rest.text = table.concat(names, '\30') .. '\29'
  return rest
end

-- receipt reads the receipt of a request's id, or nil. A call that was admitted in an outage
-- has no slots, but its reservation may have been granted with them, if only the reply was
-- lost. So a request without slots means what else the receipt has.
local function receipt(r, now)
  local got = read(KEYS[1], r.n, r.life, now)
  for i = 1, r.n do
    if r[i].c.slot then
      return got
    end
  end
  local all, n = got, r.n
  while all and n <= MAX_CHARGES do
    local text, slots = split(all.text, '\29'), marks(all)
    local pools = split(text[1], '\30')
    if #text == 3 and #pools == n and #slots == n then
      return n == r.n and all or withoutSlots(all, pools, slots)
    end
    n = n + 1
    all = read(KEYS[1], n, r.life, now)
  end
  return got
end

-- covers reports whether a receipt is for exactly the charges of a request.
local function covers(got, r)
  local same = string.sub(got.text, 1, #r.pools + 1) == r.pools .. '\29'
  for i = 1, r.n do
    same = same and got[3 + 3 * i] == r[i].c[1]
  end
  return same
end
