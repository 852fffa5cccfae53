-- The last changes of limits, for people who ask who changed what, and why. The table limits
-- has only the limit in force.
CREATE TABLE limit_changes (
	version INTEGER PRIMARY KEY,
	family  TEXT    NOT NULL,
	key     TEXT    NOT NULL,
	quota   INTEGER NOT NULL, -- 0: it was removed
	who     TEXT    NOT NULL,
	why     TEXT    NOT NULL,
	made    INTEGER NOT NULL
) STRICT;
INSERT INTO limit_changes (version, family, key, quota, who, why, made)
SELECT version, family, key, quota, who, why, made FROM limits ORDER BY version DESC LIMIT 10000;
