-- The units of a unit of work by pool, as JSON.
ALTER TABLE run_work ADD COLUMN charges TEXT NOT NULL DEFAULT '';
