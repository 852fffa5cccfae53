-- Small texts that are read and written as a whole, such as what was learned of a limit.
CREATE TABLE headroom_ledger.notes (
	name    text   PRIMARY KEY,
	note    text   NOT NULL,
	version bigint NOT NULL -- how often it was written
);
