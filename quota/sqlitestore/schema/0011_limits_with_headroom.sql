-- Headroom that was set with a limit. An older program leaves these columns when it sets one, so
-- a headroom counts only with the version for which it was set.
ALTER TABLE limits ADD COLUMN headroom INTEGER; -- NULL: the price book's share of the quota
ALTER TABLE limits ADD COLUMN headroom_of INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limit_changes ADD COLUMN headroom INTEGER;
