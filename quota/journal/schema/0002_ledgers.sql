-- Several ledgers share a journal. What was written before it told them apart has no
-- ledger, until one that matches adopts it.

CREATE TABLE debts (
  ledger   TEXT NOT NULL, -- its canonical URL; '': of a journal of schema 1
  id       TEXT NOT NULL,
  identity TEXT NOT NULL, -- of the ledger, as last known; '' is unknown
  at       INTEGER NOT NULL, -- microseconds since 1970, by the ledger's clock
  until    INTEGER,          -- of a block; NULL for a call
  asked    INTEGER NOT NULL, -- 1: the ledger may know it already
  reason   TEXT NOT NULL,
  method   TEXT NOT NULL, job TEXT NOT NULL, region TEXT NOT NULL, class TEXT NOT NULL,
  PRIMARY KEY (ledger, id)
) STRICT;

CREATE TABLE debt_charges (
  ledger   TEXT NOT NULL,
  id       TEXT NOT NULL,
  n        INTEGER NOT NULL, -- the order of the call's charges
  upstream TEXT NOT NULL, account TEXT NOT NULL, pool TEXT NOT NULL,
  units    INTEGER NOT NULL, -- as admitted
  settled  INTEGER,          -- what the call really cost; NULL: what was admitted
  PRIMARY KEY (ledger, id, n),
  FOREIGN KEY (ledger, id) REFERENCES debts (ledger, id) ON UPDATE CASCADE ON DELETE CASCADE
) STRICT;

INSERT INTO debts SELECT '', id, '', at, until, asked, reason, method, job, region, class FROM entries;
INSERT INTO debt_charges SELECT '', id, n, upstream, account, pool, units, settled FROM charges;
DROP TABLE charges;
DROP TABLE entries;

-- Pages as redisstore named them; empty once a ledger has adopted them.
ALTER TABLE births RENAME TO old_births;

CREATE TABLE births (
  ledger     TEXT NOT NULL,
  upstream   TEXT NOT NULL, account TEXT NOT NULL, pool TEXT NOT NULL,
  identity   TEXT NOT NULL,
  born       INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  latest     INTEGER NOT NULL, -- the page was written then, or later
  until      INTEGER NOT NULL, -- until then the page must be there
  PRIMARY KEY (ledger, upstream, account, pool)
) STRICT;
