-- The calls of callers over HTTP that the ledger refused, by the hour.
CREATE TABLE headroom_catalog.refusals (
	pool   text   COLLATE "C" NOT NULL,
	hour   bigint NOT NULL,
	cause  text   COLLATE "C" NOT NULL,
	caller text   COLLATE "C" NOT NULL,
	calls  bigint NOT NULL,
	PRIMARY KEY (pool, hour, cause, caller)
);
