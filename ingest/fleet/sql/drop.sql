-- drop_held returns a daemon that was seen since a time ago and has a job. Args: job, seconds.
SELECT id FROM headroom_fleet.daemons WHERE $1::text = ANY (jobs) AND seen_at > clock_timestamp() - make_interval(secs => $2::float8) ORDER BY id LIMIT 1;

-- drop_works deletes the work of a job, and returns River's jobs. Args: account, job.
DELETE FROM headroom_fleet.works WHERE account = $1::text AND job = $2::text RETURNING river_job;

-- drop_runs ends the runs of a job, and returns those in the catalog. Args: account, job.
WITH open AS (
	SELECT id FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND ended_at IS NULL ORDER BY id FOR UPDATE
), units AS (UPDATE headroom_fleet.units SET ended_at = clock_timestamp() WHERE run IN (SELECT id FROM open) AND ended_at IS NULL)
UPDATE headroom_fleet.runs SET ended_at = clock_timestamp() WHERE id IN (SELECT id FROM open) RETURNING coalesce(record, 0);
