-- A large run gets its work in several transactions. Until then adding_by is the daemon that adds
-- it, and adding_at when it last did. Works is how much work the run has, all of it added or not;
-- NULL in runs of earlier versions.
ALTER TABLE headroom_fleet.runs ADD COLUMN works bigint, ADD COLUMN adding_by text, ADD COLUMN adding_at timestamptz;
