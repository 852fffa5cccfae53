-- The units of a unit of work by pool, as JSON.
ALTER TABLE headroom_catalog.run_work ADD COLUMN charges text NOT NULL DEFAULT '';
