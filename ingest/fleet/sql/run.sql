-- idle limits how long a transaction may lie idle. Args: the limit.
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true);

-- fence returns River's job if this attempt still holds it, and keeps others from taking it
-- until the transaction ends. Args: job, attempt, when it was attempted, client.
SELECT id FROM headroom_fleet.river_job WHERE id = $1::bigint AND state = 'running' AND attempt = $2::integer
	AND attempted_at = $3::timestamptz AND attempted_by[array_length(attempted_by, 1)] = $4::text FOR UPDATE;

-- hold lets River take its job for one that has just begun, if this attempt still holds it.
-- Args: job, attempt, when it was attempted (if an answer was lost, there are several times),
-- client, now.
UPDATE headroom_fleet.river_job SET attempted_at = $5::timestamptz WHERE id = $1::bigint AND state = 'running' AND attempt = $2::integer
	AND attempted_at = ANY ($3::timestamptz[]) AND attempted_by[array_length(attempted_by, 1)] = $4::text RETURNING attempted_at;

-- run_known reports whether a time of the schedule has its run. Args: account, job, time.
SELECT EXISTS (SELECT 1 FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND scheduled_at = $3::timestamptz);

-- run_last returns the last time of the schedule that has a run. Args: account, job, the time now.
SELECT max(scheduled_at) FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND scheduled_at <= $3::timestamptz;

-- run_before returns the last time of the schedule before another that has a run. Args: account, job, time.
SELECT max(scheduled_at) FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND scheduled_at < $3::timestamptz;

-- run_busy reports whether another run of the job has not ended. Args: account, job, run.
SELECT EXISTS (SELECT 1 FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND id <> $3::bigint AND ended_at IS NULL);

-- run_add inserts a run, unless its time has one, and returns its id. Args: account, job,
-- time or NULL, whether it resumes deferred work, daemon, how much work it has, whether more than one transaction
-- adds it.
INSERT INTO headroom_fleet.runs (account, job, scheduled_at, deferred, created_by, works, adding_by, adding_at)
VALUES ($1::text, $2::text, $3::timestamptz, $4::boolean, $5::text, $6::bigint, CASE WHEN $7::boolean THEN $5::text END, CASE WHEN $7::boolean THEN clock_timestamp() END)
ON CONFLICT (account, job, scheduled_at) DO NOTHING RETURNING id;

-- run_adding reports whether a daemon still adds the work of a run, and keeps others from taking that
-- over until the transaction ends. Args: run, daemon, whether it adds more after this.
UPDATE headroom_fleet.runs SET adding_at = CASE WHEN $3::boolean THEN clock_timestamp() END, adding_by = CASE WHEN $3::boolean THEN adding_by END
WHERE id = $1::bigint AND adding_by = $2::text RETURNING id;

-- run_adopt takes over a run of a job whose daemon stopped adding its work. Args: account, job, daemon,
-- for how long it did not add any.
UPDATE headroom_fleet.runs SET adding_by = $3::text, adding_at = clock_timestamp() WHERE id = (
	SELECT id FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND ended_at IS NULL AND adding_at < clock_timestamp() - $4::interval
	ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id, scheduled_at, deferred;

-- run_skip ends a run that got no work. Args: run.
UPDATE headroom_fleet.runs SET ended_at = clock_timestamp() WHERE id = $1::bigint;

-- runs_skip ends the runs of a job that are too late and were never begun, and their work. It returns their times.
-- Args: account, job, before which time of the schedule it is too late, the
-- first of these runs. Runs are locked in the order of their ids, here as everywhere.
WITH late AS (
	SELECT id FROM headroom_fleet.runs
	WHERE account = $1::text AND job = $2::text AND id >= $4::bigint AND ended_at IS NULL AND state IS NULL AND scheduled_at < $3::timestamptz
	ORDER BY id FOR UPDATE
), skipped AS (UPDATE headroom_fleet.units SET ended_at = clock_timestamp() WHERE run IN (SELECT id FROM late) AND ended_at IS NULL)
UPDATE headroom_fleet.runs SET ended_at = clock_timestamp() WHERE id IN (SELECT id FROM late) RETURNING scheduled_at;

-- run_begin begins a run. Args: run, run in the catalog, state.
UPDATE headroom_fleet.runs SET record = $2::bigint, state = $3::jsonb WHERE id = $1::bigint;

-- run_lock returns a run, and keeps others from changing it until the transaction ends.
-- Args: run.
SELECT id, scheduled_at, deferred, record, units, state, coalesce(works, 0), ended_at IS NOT NULL FROM headroom_fleet.runs WHERE id = $1::bigint FOR UPDATE;

-- run_count counts units, and returns what other work did. Args: run, units.
UPDATE headroom_fleet.runs SET units = units + $2::bigint WHERE id = $1::bigint RETURNING units, state;

-- run_state saves the state of a run, and counts units. Args: run, state, units.
UPDATE headroom_fleet.runs SET state = $2::jsonb, units = units + $3::bigint WHERE id = $1::bigint;

-- run_end ends a run. Args: run, report.
UPDATE headroom_fleet.runs SET ended_at = clock_timestamp(), report = $2::jsonb WHERE id = $1::bigint;

-- run_report returns a run that has ended. Args: run.
SELECT scheduled_at, units, state, report, ended_at IS NOT NULL FROM headroom_fleet.runs WHERE id = $1::bigint;

-- run_open returns the run for a time of the schedule, if it has not ended. Args: account, job,
-- time.
SELECT id FROM headroom_fleet.runs WHERE account = $1::text AND job = $2::text AND scheduled_at = $3::timestamptz AND ended_at IS NULL;

-- run_ended reports whether a run has ended. Args: run.
SELECT ended_at IS NOT NULL FROM headroom_fleet.runs WHERE id = $1::bigint;

-- job_paused reports whether a person paused a job, here or with River's own pages. Args:
-- account, job, queue.
SELECT EXISTS (SELECT 1 FROM headroom_fleet.pauses WHERE account = $1::text AND job = $2::text)
	OR EXISTS (SELECT 1 FROM headroom_fleet.river_queue WHERE name = $3::text AND paused_at IS NOT NULL);

-- pause notes that a person paused a job. Args: account, job.
INSERT INTO headroom_fleet.pauses (account, job) VALUES ($1::text, $2::text) ON CONFLICT (account, job) DO NOTHING;

-- pause_end forgets that a person paused a job. Args: account, job.
DELETE FROM headroom_fleet.pauses WHERE account = $1::text AND job = $2::text;

-- pauses returns the jobs that a person paused.
SELECT account, job FROM headroom_fleet.pauses;

-- queue_pause pauses the queue of a job before a client begins to work it. Args: account, job,
-- queue.
INSERT INTO headroom_fleet.river_queue (name, created_at, metadata, paused_at, updated_at)
SELECT $3::text, now(), '{}', p.paused_at, now() FROM headroom_fleet.pauses p WHERE p.account = $1::text AND p.job = $2::text
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(river_queue.paused_at, excluded.paused_at);

-- run_over returns the first run of a job whose work has ended, though it has not. Args:
-- account, job.
SELECT r.id FROM headroom_fleet.runs r WHERE r.account = $1::text AND r.job = $2::text AND r.ended_at IS NULL AND r.adding_at IS NULL
	AND NOT EXISTS (SELECT 1 FROM headroom_fleet.units u WHERE u.run = r.id AND u.ended_at IS NULL)
ORDER BY r.id LIMIT 1;

-- jobs_to_mend returns which jobs have work that a block defers, or that has to go on and does not, a run whose
-- work has ended, or one whose daemon stopped adding its work. Args: accounts, jobs, for how long.
SELECT j.account, j.name FROM unnest($1::text[], $2::text[]) AS j (account, name)
WHERE EXISTS (SELECT 1 FROM headroom_fleet.works w WHERE w.account = j.account AND w.job = j.name AND w.blocked_on <> '' AND w.next_at > clock_timestamp())
	OR EXISTS (SELECT 1 FROM headroom_fleet.works w LEFT JOIN headroom_fleet.river_job q ON q.id = w.river_job
		WHERE w.account = j.account AND w.job = j.name AND w.next_at < clock_timestamp() - $3::interval AND (q.id IS NULL OR q.state NOT IN ('available', 'pending', 'running')))
	OR EXISTS (SELECT 1 FROM headroom_fleet.runs r WHERE r.account = j.account AND r.job = j.name AND r.ended_at IS NULL
		AND (r.adding_at < clock_timestamp() - $3::interval
			OR r.adding_at IS NULL AND NOT EXISTS (SELECT 1 FROM headroom_fleet.units u WHERE u.run = r.id AND u.ended_at IS NULL)));

-- forget deletes the rows of runs that ended before a time. Args: time.
DELETE FROM headroom_fleet.runs WHERE ended_at < $1::timestamptz;
