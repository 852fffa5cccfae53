-- The jobs that a person paused. River forgets the pause of a queue that nobody works for a day.
CREATE TABLE headroom_fleet.pauses (
	account   text COLLATE "C" NOT NULL,
	job       text COLLATE "C" NOT NULL,
	paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (account, job)
);

-- A digest of the settings of each of the daemon's jobs, in their order. Daemons with different
-- settings of a job may have different work.
ALTER TABLE headroom_fleet.daemons ADD COLUMN settings text[] NOT NULL DEFAULT '{}';

-- Since when work has been deferred, again and again. NULL when it was done last.
ALTER TABLE headroom_fleet.works ADD COLUMN deferred_since timestamptz;
