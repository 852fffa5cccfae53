-- Code that the scripts share: pages and their kinds of windows. The arithmetic
-- is that of the Go package quota/window, which explains it. The suite in
-- quota/storetest keeps the two equal.
--
-- Numbers are doubles, so all are integers below 2^53. Nothing is written before
-- everything has been read and checked: writes made before an error would stay.
--
-- A page is one string:
--
--   6 doubles   what steady needs: identity (of revision and windows), until when it
--   and 3 a     it may do without this file, born, windows, generation; then resets; then latest,
--   window      and per window the two counters that a reservation changes
--   10 doubles  version (1, or minus how far the clock was set back and has not returned), born, generation, revision, latest, blocked, expires, windows, span, restored
--               (restored: what was born until then and is lost, a person has put back;
--               of a family's member instead until when it has its place, or 0)
--   7 doubles   per window: code, region, and five numbers of state
--   text        its length in two bytes, then a line per window: the layout, for people and Go
--   regions     per ring n+1 counters of 4 bytes, or doubles where a limit needs them
--
-- The five numbers of state:
--
--   ring      bucket, used, current (units of the bucket, not yet in its slot), precision, n
--   calendar  start, end, used, prev, next
--   counter   index, prev, current, per, steps
--   log       newest, used, -, per, -; its entries are a sorted set in a key of its own:
--             members "instant:units" with the instant as score
--   bucket    level, at, low, drain, unit: as of an instant so many parts, of which so many
--             drain each microsecond; so many are a unit. The region is the instant since
--             which the level was never below low. The counters in the first part are
--             the same of the time before: since, low
--
-- Units are below 2^32 only where a ring's slots are. A ring with slots of 8 bytes is a
-- kind of its own, WIDE. Its code differs, so a higher revision lays the page out anew, as
-- for any other window. All else that counts units is a double, decimal text (logs), or an
-- integer of 64 bits (spend). No number of units is above 2^53-1: sums stop there.
--
-- If a value is in both parts, the first part counts. The exception is latest: the first
-- part has the page's, and the header has the instant that the windows have reached. A
-- block moves only the page's. Steady moves both but writes only the first part. So read
-- the header's only where steady does not run: where "until when" is -NEVER.
--
-- A charge comes as doubles: units, revision, born and until when the page must be
-- there (as the caller remembers them, 0 if it does not), identity, generation and
-- latest (as the caller has seen the page, 0 if it has not), then days and windows,
-- each with their count before them. -1 days: it is a slot, which leaves no spend. A day is start, end. A window is code, limit, a,
-- b, span, lag (of a ring how much longer it counts than its window is), then the number of calendar periods sent, and for each start, end.

local redis, struct, string = redis, struct, string
local call, pack, unpack_ = redis.call, struct.pack, struct.unpack
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local VERSION = 1
local HEAD, STATE = 10, 7                       -- doubles
local RING, CALENDAR, LOG, COUNTER, WIDE, BUCKET = 1, 2, 3, 4, 5, 6 -- code mod 8
local NARROW, COUNTED = 4294967295, 4294967296  -- the most in a slot of 4 bytes, and in a counter
local MOST = 9007199254740991                   -- the most units: what is full has lost count
local NEVER = 9007199254740992
local MAX_LABELS, SPEND_LIFE = 2000, 36 * 86400000
local OTHER_LABELS = 'other\31other\31other\31other\31'
local MAX_WINDOWS = 1000                        -- of a page; more is no page
local RETURN = 31 * 86400000000 -- for so long a page waits for a clock that was set back
local MAX_SLACK = 60000000                      -- how long units are handed out after they were taken, at most
local MARGIN = 3600000000 -- a page is kept once or twice as long longer than it counts

local missed -- an instant whose calendar period or day the caller did not send
local members -- of a request for a member of a family: its partition; see place.lua

-- kindof is the kind of a window's code. A wide ring is a ring.
local function kindof(code)
  local kind = code % 8
  return kind == WIDE and RING or kind
end

local function whole(n)
  return string.format('%.0f', n)
end

local function doubles(s, from, n)
  return { unpack_('<' .. string.rep('d', n), s, from) }
end
