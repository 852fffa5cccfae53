-- What the processes of one machine have to tell the ledger once it can be reached
-- again, and when the pages that they use were born.

PRAGMA application_id = 1215458666; -- 'Hrmj': a journal of Headroom

CREATE TABLE IF NOT EXISTS entries (
  id     TEXT PRIMARY KEY,
  at     INTEGER NOT NULL, -- microseconds since 1970, by the ledger's clock
  until  INTEGER,          -- of a block; NULL for a call
  asked  INTEGER NOT NULL, -- 1: the ledger may know it already
  reason TEXT NOT NULL,
  method TEXT NOT NULL, job TEXT NOT NULL, region TEXT NOT NULL, class TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS charges (
  id       TEXT NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
  n        INTEGER NOT NULL, -- the order of the call's charges
  upstream TEXT NOT NULL, account TEXT NOT NULL, pool TEXT NOT NULL,
  units    INTEGER NOT NULL, -- as admitted
  settled  INTEGER,          -- what the call really cost; NULL: what was admitted
  PRIMARY KEY (id, n)
) STRICT;

CREATE TABLE IF NOT EXISTS births (
  page  TEXT PRIMARY KEY,
  born  INTEGER NOT NULL,
  until INTEGER NOT NULL -- until then the page must be there
) STRICT;
