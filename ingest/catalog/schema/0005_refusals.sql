-- The calls of callers over HTTP that the ledger refused, by the hour.
CREATE TABLE refusals (
	pool   TEXT    NOT NULL,
	hour   INTEGER NOT NULL,
	cause  TEXT    NOT NULL,
	caller TEXT    NOT NULL,
	calls  INTEGER NOT NULL,
	PRIMARY KEY (pool, hour, cause, caller)
) STRICT, WITHOUT ROWID;
