-- The ledger. Times are microseconds since 1970 UTC; ask the views for times that a person
-- can read. Every transaction locks its accounts first, so no two write the same row at once.

-- Every pool that this ledger has ever known. It outlives the pool's page, so that a page
-- that was deleted, or restored from somewhere else, is noticed: see counts_until.
CREATE TABLE headroom_ledger.births (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	upstream     text   COLLATE "C" NOT NULL,
	account      text   COLLATE "C" NOT NULL,
	pool         text   COLLATE "C" NOT NULL,
	zone         text   NOT NULL, -- whose days its spend is counted by; '' is UTC
	born         bigint NOT NULL, -- when the ledger first knew its page; 0 of a keyed pool
	counts_until bigint NOT NULL, -- until then something of it may still count
	UNIQUE (upstream, account, pool)
);

-- The pages of the pools that are listed in the price book. The page itself is the state of
-- its windows, as quota/window writes it; what stands beside it is for people. A page is
-- rewritten with each call: the free half of a block takes the next versions, and no index
-- changes.
CREATE TABLE headroom_ledger.pools (
	upstream      text   COLLATE "C" NOT NULL,
	account       text   COLLATE "C" NOT NULL,
	pool          text   COLLATE "C" NOT NULL,
	born          bigint NOT NULL,
	revision      bigint NOT NULL, -- of the price book that laid it out
	written       bigint NOT NULL, -- the latest instant at which it was charged or changed
	blocked_until bigint NOT NULL, -- 0 is never
	reason        text   NOT NULL, -- of the block
	windows       text   NOT NULL,
	used          text   NOT NULL, -- in each of them, at the instant written
	page          bytea  NOT NULL,
	PRIMARY KEY (upstream, account, pool)
) WITH (fillfactor = 50, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
ALTER TABLE headroom_ledger.pools ALTER COLUMN page SET STORAGE EXTERNAL; -- it does not compress

-- A row per charge: who spent what, and the receipt of the reservation.
CREATE TABLE headroom_ledger.reservations (
	number     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	pool_id    bigint  NOT NULL, -- of births, which are never deleted
	id         text    COLLATE "C", -- the caller's; NULL left no receipt
	nonce      bytea   NOT NULL, -- what the token of its owner proves
	made       bigint  NOT NULL, -- the ledger's clock when it was written
	at         bigint  NOT NULL, -- when it counted
	day        text    COLLATE "C" NOT NULL, -- of the pool's calendar; '' of a slot, which is no spend
	units      bigint  NOT NULL, -- what it cost in the end
	reserved   bigint  NOT NULL, -- what it was reserved for
	calls      bigint  NOT NULL, -- 0 if it was released
	generation bigint  NOT NULL, -- of the page when it counted
	method     text    NOT NULL,
	job        text    NOT NULL,
	region     text    NOT NULL,
	class      text    NOT NULL,
	reason     text    NOT NULL, -- of a correction
	key        text    NOT NULL, -- of a keyed pool
	shared     boolean NOT NULL, -- its page is the one that new keys share
	settled    boolean NOT NULL DEFAULT false, -- then the next three say what settling did
	back       bigint  NOT NULL DEFAULT 0, -- units given back
	left_      bigint  NOT NULL DEFAULT 0, -- units whose window had passed
	charged    bigint  NOT NULL DEFAULT 0  -- units charged on top
) WITH (fillfactor = 80);

CREATE INDEX receipts ON headroom_ledger.reservations (id) WHERE id IS NOT NULL;
-- Rows are written in the order of their days, or nearly so. This index costs next to nothing.
CREATE INDEX reservations_by_day ON headroom_ledger.reservations USING brin (day, made) WITH (pages_per_range = 32, autosummarize = on);

-- Families and keyed pools: a page per key, and how many there are. The row with the empty
-- key is the page that new keys share when there are too many; it is not counted.
CREATE TABLE headroom_ledger.families (
	upstream text   COLLATE "C" NOT NULL,
	account  text   COLLATE "C" NOT NULL,
	pool     text   COLLATE "C" NOT NULL, -- '' is a family
	members  bigint NOT NULL,
	called   bigint NOT NULL, -- about when
	leapt    bigint NOT NULL, -- the clock was found here after a leap; 0 is none
	proven   bigint NOT NULL, -- until then the clock has certainly come
	PRIMARY KEY (upstream, account, pool)
) WITH (fillfactor = 50);

CREATE TABLE headroom_ledger.members (
	upstream text    COLLATE "C" NOT NULL,
	account  text    COLLATE "C" NOT NULL,
	pool     text    COLLATE "C" NOT NULL,
	key      text    COLLATE "C" NOT NULL,
	windows  text    NOT NULL,
	used     text    NOT NULL,
	written  bigint  NOT NULL,
	page     bytea   NOT NULL,
	listed   boolean NOT NULL, -- the price book lists the key
	reason   text    NOT NULL, -- of the block
	PRIMARY KEY (upstream, account, pool, key)
) WITH (fillfactor = 80);
ALTER TABLE headroom_ledger.members ALTER COLUMN page SET STORAGE EXTERNAL;

CREATE INDEX members_by_age ON headroom_ledger.members (upstream, account, pool, written) WHERE key <> '';

-- Which ledger this is.
CREATE TABLE headroom_ledger.identity (id text NOT NULL);
INSERT INTO headroom_ledger.identity VALUES (replace(gen_random_uuid()::text, '-', ''));

-- Which process holds a job.
CREATE TABLE headroom_ledger.leases (
	name   text        COLLATE "C" PRIMARY KEY,
	holder text        NOT NULL,
	token  bigint      NOT NULL,
	until  timestamptz NOT NULL
);

-- Who spent it, the latest first.
CREATE VIEW headroom_ledger.spent AS
SELECT to_timestamp(r.at / 1000000.0) AT TIME ZONE 'UTC' AS at_utc,
	r.day, b.upstream, b.account, b.pool,
	r.method, r.job, r.region, r.class, r.reason, r.units, r.calls,
	CASE WHEN r.settled AND r.calls = 0 THEN 'released' WHEN r.settled THEN 'settled' ELSE 'reserved' END AS state,
	r.id, r.key
FROM headroom_ledger.reservations AS r JOIN headroom_ledger.births AS b ON b.id = r.pool_id
ORDER BY r.number DESC;

-- What is used of each pool, as of its last charge.
CREATE VIEW headroom_ledger.pages AS
SELECT upstream, account, pool, windows, used, revision,
	to_timestamp(born / 1000000.0) AT TIME ZONE 'UTC' AS born_utc,
	to_timestamp(written / 1000000.0) AT TIME ZONE 'UTC' AS written_utc,
	CASE WHEN blocked_until = 0 THEN ''
		ELSE 'blocked until ' || to_char(to_timestamp(blocked_until / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC: ' || reason
	END AS block
FROM headroom_ledger.pools ORDER BY upstream, account, pool;
