-- Limits of single keys of families that were set while programs run. They take the place
-- of what the price book says about the key. A removed limit stays, with the quota 0, so
-- that others learn of it.
CREATE TABLE limits (
	family  TEXT    NOT NULL,
	key     TEXT    NOT NULL,
	quota   INTEGER NOT NULL, -- 0: it was removed
	who     TEXT    NOT NULL,
	why     TEXT    NOT NULL,
	made    INTEGER NOT NULL, -- when
	version INTEGER NOT NULL UNIQUE, -- each change has a higher one
	PRIMARY KEY (family, key)
) STRICT, WITHOUT ROWID;
