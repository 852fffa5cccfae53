-- Why a unit of work stopped, in a word, with the pool that lacked units, and how many of
-- its calls were refused.
ALTER TABLE run_work ADD COLUMN cause TEXT NOT NULL DEFAULT '';
ALTER TABLE run_work ADD COLUMN pool TEXT NOT NULL DEFAULT '';
ALTER TABLE run_work ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;

-- Totals of a pool by the day, kept longer than a ledger keeps its spend.
CREATE TABLE pool_days (
	pool    TEXT    NOT NULL,
	day     TEXT    NOT NULL,
	units   INTEGER NOT NULL,
	calls   INTEGER NOT NULL,
	refused INTEGER NOT NULL, -- calls of runs
	blocked INTEGER NOT NULL, -- units of work that a block stopped
	PRIMARY KEY (pool, day)
) STRICT, WITHOUT ROWID;

-- What people did on the pages of the server.
CREATE TABLE actions (
	id     INTEGER PRIMARY KEY AUTOINCREMENT,
	at     INTEGER NOT NULL,
	who    TEXT    NOT NULL,
	what   TEXT    NOT NULL,
	target TEXT    NOT NULL,
	detail TEXT    NOT NULL
) STRICT;
