-- The ledger. Times are microseconds since 1970 UTC; ask the views for times
-- that a person can read.

PRAGMA application_id = 1215456356; -- 'Hrdd': a ledger of Headroom

-- Every pool that this file has ever known. It outlives the pool's page, so that
-- a page that was deleted, or restored from somewhere else, is noticed: see
-- counts_until.
CREATE TABLE births (
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	upstream     TEXT    NOT NULL,
	account      TEXT    NOT NULL,
	pool         TEXT    NOT NULL,
	zone         TEXT    NOT NULL, -- whose days its spend is counted by; '' is UTC
	born         INTEGER NOT NULL, -- when the ledger first knew its page
	counts_until INTEGER NOT NULL, -- until then something of it may still count
	UNIQUE (upstream, account, pool)
) STRICT;

-- The pages of the pools that are listed in the price book. The page itself is
-- the state of its windows, as quota/window writes it; what stands beside it is
-- for people.
CREATE TABLE pools (
	id            INTEGER PRIMARY KEY AUTOINCREMENT,
	upstream      TEXT    NOT NULL,
	account       TEXT    NOT NULL,
	pool          TEXT    NOT NULL,
	born          INTEGER NOT NULL,
	revision      INTEGER NOT NULL, -- of the price book that laid it out
	written       INTEGER NOT NULL, -- the latest instant at which it was charged or changed
	blocked_until INTEGER NOT NULL, -- 0 is never
	reason        TEXT    NOT NULL, -- of the block
	windows       TEXT    NOT NULL,
	used          TEXT    NOT NULL, -- in each of them, at the instant written
	stamp         INTEGER NOT NULL, -- another one with each page: who has seen it has the page
	page          BLOB    NOT NULL,
	UNIQUE (upstream, account, pool)
) STRICT;

-- A row per charge: who spent what, and the receipt of the reservation.
CREATE TABLE reservations (
	number     INTEGER PRIMARY KEY,
	pool_id    INTEGER NOT NULL REFERENCES births (id),
	id         TEXT,             -- the caller's; NULL left no receipt
	nonce      BLOB,             -- what the token of its owner proves
	made       INTEGER NOT NULL, -- the ledger's clock when it was written
	at         INTEGER NOT NULL, -- when it counted
	day        TEXT    NOT NULL, -- of the pool's calendar
	units      INTEGER NOT NULL, -- what it cost in the end
	reserved   INTEGER NOT NULL, -- what it was reserved for
	calls      INTEGER NOT NULL, -- 0 if it was released
	generation INTEGER NOT NULL, -- of the page when it counted
	method     TEXT    NOT NULL,
	job        TEXT    NOT NULL,
	region     TEXT    NOT NULL,
	class      TEXT    NOT NULL,
	reason     TEXT    NOT NULL, -- of a correction
	settled    INTEGER NOT NULL DEFAULT 0, -- 1: the next three say what settling did
	back       INTEGER NOT NULL DEFAULT 0, -- units given back
	left_      INTEGER NOT NULL DEFAULT 0, -- units whose window had passed
	charged    INTEGER NOT NULL DEFAULT 0  -- units charged on top
) STRICT;

CREATE INDEX receipts ON reservations (id) WHERE id IS NOT NULL;

-- Families: a page per key, and how many there are. The row with the empty key
-- is the page that new keys share when the family is full; it is not counted.
CREATE TABLE families (
	upstream TEXT    NOT NULL,
	account  TEXT    NOT NULL,
	members  INTEGER NOT NULL,
	PRIMARY KEY (upstream, account)
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
	id       INTEGER PRIMARY KEY,
	upstream TEXT    NOT NULL,
	account  TEXT    NOT NULL,
	key      TEXT    NOT NULL,
	windows  TEXT    NOT NULL,
	used     TEXT    NOT NULL,
	written  INTEGER NOT NULL,
	page     BLOB    NOT NULL,
	UNIQUE (upstream, account, key)
) STRICT;

CREATE INDEX members_by_age ON members (upstream, account, written) WHERE key <> '';

-- Who spent it, the latest first.
CREATE VIEW spent AS
SELECT strftime('%Y-%m-%d %H:%M:%S', r.at / 1000000, 'unixepoch') AS at_utc,
	r.day, b.upstream, b.account, b.pool,
	r.method, r.job, r.region, r.class, r.reason, r.units, r.calls,
	CASE WHEN r.settled AND r.calls = 0 THEN 'released' WHEN r.settled THEN 'settled' ELSE 'reserved' END AS state,
	r.id
FROM reservations AS r JOIN births AS b ON b.id = r.pool_id
ORDER BY r.number DESC;

-- What is used of each pool, as of its last charge.
CREATE VIEW pages AS
SELECT upstream, account, pool, windows, used, revision,
	strftime('%Y-%m-%d %H:%M:%S', born / 1000000, 'unixepoch') AS born_utc,
	strftime('%Y-%m-%d %H:%M:%S', written / 1000000, 'unixepoch') AS written_utc,
	CASE WHEN blocked_until = 0 THEN ''
		ELSE 'blocked until ' || strftime('%Y-%m-%d %H:%M:%S', blocked_until / 1000000, 'unixepoch') || ' UTC: ' || reason
	END AS block
FROM pools ORDER BY upstream, account, pool;
