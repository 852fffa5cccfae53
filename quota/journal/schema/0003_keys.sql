-- The key of a page of a keyed pool.
ALTER TABLE debt_charges ADD COLUMN key TEXT NOT NULL DEFAULT '';
