-- The address of the ledger that runs are charged to, and since when.
CREATE TABLE ledger (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	address TEXT    NOT NULL,
	since   INTEGER NOT NULL
) STRICT;
