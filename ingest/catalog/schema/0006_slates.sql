-- Texts that processes share: see Slate.
CREATE TABLE slates (
	name    TEXT    PRIMARY KEY,
	version INTEGER NOT NULL,
	text    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
