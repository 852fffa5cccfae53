-- Headroom that was set with a limit. An older program leaves these columns when it sets one, so
-- a headroom counts only with the version for which it was set.
ALTER TABLE headroom_ledger.limits ADD COLUMN headroom bigint, -- NULL: the price book's share of the quota
	ADD COLUMN headroom_of bigint NOT NULL DEFAULT 0;
ALTER TABLE headroom_ledger.limit_changes ADD COLUMN headroom bigint;
