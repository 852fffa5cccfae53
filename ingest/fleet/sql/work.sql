-- units_add adds work of a run, stalest first, unless it has it. Args: run, names, regions, places, how much it has already.
INSERT INTO headroom_fleet.units (run, work, region, seq, place)
SELECT $1::bigint, w, r, $5::integer + n, p FROM unnest($2::text[], $3::text[], $4::integer[]) WITH ORDINALITY AS u (w, r, p, n)
ON CONFLICT (run, work) DO NOTHING;

-- units_of_run returns the names of the work of a run. Args: run.
SELECT work FROM headroom_fleet.units WHERE run = $1::bigint;

-- units_coming reports whether a run of deferred work of a job still gets work. Args: account, job.
SELECT EXISTS (SELECT 1 FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND ended_at IS NULL AND deferred AND adding_at IS NOT NULL);

-- units_open returns the names of the work of a job that is in a run that has not ended.
-- Args: account, job.
SELECT u.work FROM headroom_fleet.units u JOIN headroom_fleet.runs r ON r.id = u.run
WHERE u.ended_at IS NULL AND r.ended_at IS NULL AND r.account = $1::text AND r.job = $2::text;

-- unit_next returns the oldest run that a unit of work is open in. Args: account, job, work.
SELECT r.id, r.scheduled_at, r.deferred, r.record, r.units, r.state, u.region, u.place, u.tally,
	CASE WHEN r.state IS NOT NULL THEN 0 WHEN r.adding_at IS NOT NULL THEN r.works
		ELSE (SELECT count(*) FROM headroom_fleet.units n WHERE n.run = r.id AND (n.ended_at IS NULL OR n.outcome IS NOT NULL)) END
FROM headroom_fleet.units u JOIN headroom_fleet.runs r ON r.id = u.run
WHERE u.work = $3::text AND u.ended_at IS NULL AND r.account = $1::text AND r.job = $2::text AND r.ended_at IS NULL
ORDER BY r.id LIMIT 1;

-- unit_open reports whether a unit of work is open in a run. Args: account, job, work.
SELECT EXISTS (SELECT 1 FROM headroom_fleet.units u JOIN headroom_fleet.runs r ON r.id = u.run
	WHERE u.work = $3::text AND u.ended_at IS NULL AND r.account = $1::text AND r.job = $2::text AND r.ended_at IS NULL);

-- unit_skip ends a unit of work that its run does not do. Args: run, work.
UPDATE headroom_fleet.units SET ended_at = clock_timestamp() WHERE run = $1::bigint AND work = $2::text AND ended_at IS NULL;

-- units_skip ends a unit of work in all runs that were due when it was completed last, and
-- have not begun it. Args: account, job, work, when it was completed, the first of these runs.
WITH done AS (
	SELECT id FROM headroom_fleet.runs
	WHERE account = $1::text AND job = $2::text AND id >= $5::bigint AND ended_at IS NULL AND scheduled_at <= $4::timestamptz
	ORDER BY id FOR UPDATE
)
UPDATE headroom_fleet.units SET ended_at = clock_timestamp()
WHERE run IN (SELECT id FROM done) AND work = $3::text AND ended_at IS NULL AND coalesce((tally->>'turns')::integer, 0) = 0;

-- unit_tally saves what a run knows of a unit of work. Args: run, work, tally.
UPDATE headroom_fleet.units SET tally = $3::jsonb WHERE run = $1::bigint AND work = $2::text AND ended_at IS NULL;

-- unit_end ends a unit of work in its run. Args: run, work, tally, outcome.
UPDATE headroom_fleet.units SET tally = $3::jsonb, outcome = $4::jsonb, ended_at = clock_timestamp()
WHERE run = $1::bigint AND work = $2::text AND ended_at IS NULL;

-- units_of returns the work of a run that it did, or has to do, stalest first. Args: run.
SELECT work, region, tally, outcome, ended_at IS NOT NULL FROM headroom_fleet.units
WHERE run = $1::bigint AND (ended_at IS NULL OR outcome IS NOT NULL) ORDER BY seq;

-- work_queue notes River's jobs of units of work. Args: account, job, works, regions, River's
-- jobs, when they go on.
INSERT INTO headroom_fleet.works AS w (account, job, work, region, river_job, next_at)
SELECT $1::text, $2::text, u.work, u.region, u.river_job, u.next_at FROM unnest($3::text[], $4::text[], $5::bigint[], $6::timestamptz[]) AS u (work, region, river_job, next_at)
ON CONFLICT (account, job, work) DO UPDATE SET region = excluded.region, river_job = excluded.river_job,
	next_at = excluded.next_at, why = '', blocked_on = '';

-- work_hold notes who works on a unit of work. If another daemon held it, did not let go and has not been seen
-- for long, it was taken over. Args: account, job, work, daemon, whether this daemon knows who is gone, how long.
WITH gone AS (
	SELECT held_by FROM headroom_fleet.works
	WHERE account = $1::text AND job = $2::text AND work = $3::text AND held_by NOT IN ('', $4::text) AND $5::boolean
		AND NOT EXISTS (SELECT 1 FROM headroom_fleet.daemons d WHERE d.id = held_by AND d.seen_at BETWEEN clock_timestamp() - $6::interval AND clock_timestamp() + $6::interval)
)
UPDATE headroom_fleet.works SET
	taken_from = coalesce((SELECT held_by FROM gone), taken_from),
	taken_at = CASE WHEN EXISTS (SELECT 1 FROM gone) THEN clock_timestamp() ELSE taken_at END,
	held_by = $4::text, held_since = clock_timestamp(), why = '', blocked_on = ''
WHERE account = $1::text AND job = $2::text AND work = $3::text;

-- work_rest notes that nobody works on a unit of work, and why. Args: account, job, work,
-- when it goes on or NULL, why, the pool whose block defers it.
UPDATE headroom_fleet.works SET held_by = '', held_since = NULL, next_at = $4::timestamptz, why = $5::text, blocked_on = $6::text,
	deferred_since = CASE WHEN $4::timestamptz IS NULL THEN NULL WHEN $5::text = 'deferred' THEN coalesce(deferred_since, clock_timestamp()) ELSE deferred_since END
WHERE account = $1::text AND job = $2::text AND work = $3::text;

-- work_done notes that a unit of work was completed. Args: account, job, work.
UPDATE headroom_fleet.works SET deferred_since = NULL WHERE account = $1::text AND job = $2::text AND work = $3::text AND deferred_since IS NOT NULL;

-- works_blocked returns the pools whose blocks defer work of a job. Args: account, job.
SELECT coalesce(array_agg(DISTINCT blocked_on), '{}') FROM headroom_fleet.works
WHERE account = $1::text AND job = $2::text AND blocked_on <> '' AND next_at > clock_timestamp();

-- works_wake lets work go on that the block of a pool deferred, or all work of a job if the
-- pool is empty. It returns River's jobs. Args: account, job, pool, how much at most.
UPDATE headroom_fleet.works SET next_at = clock_timestamp(), blocked_on = '', why = ''
WHERE account = $1::text AND job = $2::text AND work IN (
	SELECT work FROM headroom_fleet.works
	WHERE account = $1::text AND job = $2::text AND ($3::text = '' OR blocked_on = $3::text) AND next_at > clock_timestamp() ORDER BY work LIMIT $4::integer FOR UPDATE)
RETURNING river_job;

-- jobs_wake makes jobs of River available that sleep. Args: jobs.
WITH woken AS (
	UPDATE headroom_fleet.river_job SET state = 'available', scheduled_at = clock_timestamp() WHERE id = ANY ($1::bigint[]) AND state IN ('scheduled', 'retryable') RETURNING queue
)
SELECT pg_notify('headroom_fleet.river_insert', json_build_object('queue', queue)::text) FROM (SELECT DISTINCT queue FROM woken) AS queues;

-- nudge makes daemons look for work in a queue, as River does when it inserts a job. If River changes how, they
-- find it when they poll. Args: queue.
SELECT pg_notify('headroom_fleet.river_insert', json_build_object('queue', $1::text)::text);

-- works_late returns River's jobs that sleep though their work has to go on. Args: account,
-- job, for how long, how many at most.
SELECT w.river_job FROM headroom_fleet.works w JOIN headroom_fleet.river_job j ON j.id = w.river_job
WHERE w.account = $1::text AND w.job = $2::text AND w.next_at < clock_timestamp() - $3::interval
	AND j.state IN ('scheduled', 'retryable') AND j.scheduled_at > clock_timestamp() LIMIT $4::integer;

-- works_lost returns work that has to go on and that River has no unfinished job for. Args:
-- account, job, for how long, how much at most.
SELECT w.work, w.region FROM headroom_fleet.works w LEFT JOIN headroom_fleet.river_job j ON j.id = w.river_job
WHERE w.account = $1::text AND w.job = $2::text AND w.next_at < clock_timestamp() - $3::interval
	AND (j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded')) LIMIT $4::integer;

-- works_idle lets go of work that a run leaves and nobody works on, and returns it. Args: run, how
-- much at most.
SELECT u.work, u.region, u.tally FROM headroom_fleet.units u JOIN headroom_fleet.runs r ON r.id = u.run
	JOIN headroom_fleet.works w ON w.account = r.account AND w.job = r.job AND w.work = u.work
	JOIN headroom_fleet.river_job j ON j.id = w.river_job
WHERE u.run = $1::bigint AND u.ended_at IS NULL AND j.state <> 'running' ORDER BY u.seq LIMIT $2::integer FOR UPDATE OF u, j;

-- works_all returns all work, with River's jobs. Work that a run deferred says why that run did.
SELECT w.account, w.job, w.work, w.region, w.river_job, coalesce(j.state::text, ''), w.next_at,
	CASE WHEN w.why <> 'deferred' THEN w.why ELSE coalesce((SELECT coalesce(u.outcome->'cause'->>'text', r.report->'cause'->>'text')
		FROM headroom_fleet.units u JOIN headroom_fleet.runs r ON r.id = u.run
		WHERE u.work = w.work AND r.account = w.account AND r.job = w.job AND u.outcome IS NOT NULL ORDER BY r.id DESC LIMIT 1), w.why) END,
	w.blocked_on, w.held_by, w.held_since, w.taken_from, w.taken_at, w.deferred_since
FROM headroom_fleet.works w LEFT JOIN headroom_fleet.river_job j ON j.id = w.river_job ORDER BY w.account, w.job, w.work;

-- cursors_due makes the deferred work of a job due now, in the tables of the catalog. Args: job.
UPDATE headroom_catalog.cursors SET resume_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, blocked_on = ''
WHERE job = $1::text AND resume_at > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- work_free makes work available whose daemon has not been seen for long, notes that, and returns it with
-- that daemon. Times in the future are from before the database's clock was set back.
-- The daemon may only be cut off, and its job still runs: see fence. It also announces work of which nobody
-- told when it was due. Args: queues, how long, whether this daemon knows who is gone, all queues.
WITH freed AS (
	UPDATE headroom_fleet.river_job j SET state = 'available', scheduled_at = clock_timestamp()
	WHERE $3::boolean AND j.state = 'running' AND j.queue = ANY ($1::text[]) AND j.attempted_at NOT BETWEEN clock_timestamp() - $2::interval AND clock_timestamp() + $2::interval AND NOT EXISTS (
		SELECT 1 FROM headroom_fleet.daemons d WHERE d.id = j.attempted_by[array_length(j.attempted_by, 1)] AND d.seen_at BETWEEN clock_timestamp() - $2::interval AND clock_timestamp() + $2::interval)
	RETURNING j.id, j.queue, j.args, j.attempted_by
), taken AS (
	UPDATE headroom_fleet.works w SET taken_from = f.attempted_by[array_length(f.attempted_by, 1)], taken_at = clock_timestamp(), held_by = '', held_since = NULL
	FROM freed f WHERE w.account = f.args->>'account' AND w.job = f.args->>'job' AND w.work = f.args->>'work' AND w.river_job = f.id
), told AS (
	SELECT pg_notify('headroom_fleet.river_insert', json_build_object('queue', queue)::text) FROM (
		SELECT queue FROM freed
		UNION SELECT q FROM unnest($4::text[]) AS q
		WHERE EXISTS (SELECT 1 FROM headroom_fleet.river_job WHERE state = 'available' AND queue = q AND scheduled_at < clock_timestamp() - interval '1 s')
	) AS queues (queue)
)
-- PostgreSQL runs a part that only reads if it is asked for its rows, so told comes first. Without freed work, the row is empty.
SELECT coalesce(args->>'job', ''), coalesce(args->>'work', ''), coalesce(attempted_by[array_length(attempted_by, 1)], '')
FROM (SELECT count(*) FROM told) AS all_told LEFT JOIN freed ON true;
