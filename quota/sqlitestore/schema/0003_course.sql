-- What the clock showed when a family was called, so that no member is forgotten
-- because the clock leapt ahead.
ALTER TABLE families ADD COLUMN called INTEGER NOT NULL DEFAULT 0; -- at about this time
ALTER TABLE families ADD COLUMN leapt  INTEGER NOT NULL DEFAULT 0; -- it was found here after a leap; 0 is none
ALTER TABLE families ADD COLUMN proven INTEGER NOT NULL DEFAULT 0; -- until then it has certainly come
