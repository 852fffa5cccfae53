-- Keys with a place in the price book take none among the members that may be.
ALTER TABLE members ADD COLUMN listed INTEGER NOT NULL DEFAULT 0;
