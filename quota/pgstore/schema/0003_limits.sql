-- Limits of single keys that were set while programs run. A removed limit stays, with the
-- quota 0, so that others learn of it.
CREATE TABLE headroom_ledger.limits (
	family  text   NOT NULL,
	key     text   NOT NULL,
	quota   bigint NOT NULL, -- 0: it was removed
	who     text   NOT NULL,
	why     text   NOT NULL,
	made    bigint NOT NULL, -- when
	version bigint NOT NULL UNIQUE, -- each change has a higher one
	PRIMARY KEY (family, key)
);
-- The last changes of limits, for people who ask who changed what, and why.
CREATE TABLE headroom_ledger.limit_changes (
	version bigint PRIMARY KEY,
	family  text   NOT NULL,
	key     text   NOT NULL,
	quota   bigint NOT NULL, -- 0: it was removed
	who     text   NOT NULL,
	why     text   NOT NULL,
	made    bigint NOT NULL
);
