-- Ends a unit of work. Args: run, work, region, state, the time, when it goes on,
-- error, units beside those of its pages.
INSERT INTO run_work (run, work, region, state, ended_at, resume_at, error, units) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (run, work) DO UPDATE SET state = excluded.state, ended_at = excluded.ended_at,
	resume_at = excluded.resume_at, error = excluded.error, units = units + excluded.units
