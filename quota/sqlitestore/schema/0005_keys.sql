-- A pool may have a page per key, as a family has. The pages of a family have no pool.
CREATE TABLE keyed (
	upstream TEXT    NOT NULL,
	account  TEXT    NOT NULL,
	pool     TEXT    NOT NULL, -- '' is a family
	members  INTEGER NOT NULL,
	called   INTEGER NOT NULL,
	leapt    INTEGER NOT NULL,
	proven   INTEGER NOT NULL,
	PRIMARY KEY (upstream, account, pool)
) STRICT, WITHOUT ROWID;

INSERT INTO keyed SELECT upstream, account, '', members, called, leapt, proven FROM families;
DROP TABLE families;
ALTER TABLE keyed RENAME TO families;

CREATE TABLE pages_of_keys (
	id       INTEGER PRIMARY KEY,
	upstream TEXT    NOT NULL,
	account  TEXT    NOT NULL,
	pool     TEXT    NOT NULL,
	key      TEXT    NOT NULL, -- '' is the page that new keys share
	windows  TEXT    NOT NULL,
	used     TEXT    NOT NULL,
	written  INTEGER NOT NULL,
	page     BLOB    NOT NULL,
	listed   INTEGER NOT NULL, -- 1: the price book lists the key
	reason   TEXT    NOT NULL, -- of the block
	UNIQUE (upstream, account, pool, key)
) STRICT;

INSERT INTO pages_of_keys SELECT id, upstream, account, '', key, windows, used, written, page, listed, '' FROM members;
DROP TABLE members;
ALTER TABLE pages_of_keys RENAME TO members;

CREATE INDEX members_by_age ON members (upstream, account, pool, written) WHERE key <> '';

-- Which page a charge was taken from.
ALTER TABLE reservations ADD COLUMN key    TEXT    NOT NULL DEFAULT '';
ALTER TABLE reservations ADD COLUMN shared INTEGER NOT NULL DEFAULT 0; -- 1: from the page that new keys share

DROP VIEW spent;
CREATE VIEW spent AS
SELECT strftime('%Y-%m-%d %H:%M:%S', r.at / 1000000, 'unixepoch') AS at_utc,
	r.day, b.upstream, b.account, b.pool,
	r.method, r.job, r.region, r.class, r.reason, r.units, r.calls,
	CASE WHEN r.settled AND r.calls = 0 THEN 'released' WHEN r.settled THEN 'settled' ELSE 'reserved' END AS state,
	r.id, r.key
FROM reservations AS r JOIN births AS b ON b.id = r.pool_id
ORDER BY r.number DESC;
