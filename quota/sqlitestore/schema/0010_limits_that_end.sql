-- Limits that end by themselves. An older program that shares the file sets a limit without an
-- end and leaves these columns, so an end counts only with the version for which it was set.
ALTER TABLE limits ADD COLUMN ends INTEGER NOT NULL DEFAULT 0; -- when; 0: never
ALTER TABLE limits ADD COLUMN ends_of INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limit_changes ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;
