-- Small texts that are read and written as a whole, such as what was learned of a limit.
CREATE TABLE notes (
	name    TEXT    PRIMARY KEY,
	note    TEXT    NOT NULL,
	version INTEGER NOT NULL -- how often it was written
) STRICT, WITHOUT ROWID;
