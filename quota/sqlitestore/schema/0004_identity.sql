-- Which ledger this is, and where it was last opened by who asks for copies of it.
CREATE TABLE identity (
	id   TEXT NOT NULL,
	path TEXT NOT NULL
) STRICT;

INSERT INTO identity VALUES (lower(hex(randomblob(16))), '');
