-- Limits that end by themselves. An older program sets a limit without an end and leaves these
-- columns, so an end counts only with the version for which it was set.
ALTER TABLE headroom_ledger.limits ADD COLUMN ends bigint NOT NULL DEFAULT 0, -- when; 0: never
	ADD COLUMN ends_of bigint NOT NULL DEFAULT 0;
ALTER TABLE headroom_ledger.limit_changes ADD COLUMN ends bigint NOT NULL DEFAULT 0;
