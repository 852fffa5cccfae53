-- run_add begins a run. Args: job, time at which it was scheduled, time.
INSERT INTO headroom_catalog.runs (job, scheduled_at, started_at, ended_at, state, resume_at, error)
VALUES ($1::text, $2::bigint, $3::bigint, 0, 'running', 0, '') RETURNING id;

-- work_abandon ends the work of runs whose process died. Args: job, time.
UPDATE headroom_catalog.run_work SET state = 'failed', ended_at = $2::bigint, error = 'its process ended before it did', cause = 'ended'
WHERE state = 'running' AND run IN (SELECT id FROM headroom_catalog.runs WHERE job = $1::text AND state = 'running');

-- run_abandon ends the runs of a job whose process died. Args: job, time.
UPDATE headroom_catalog.runs SET state = 'failed', ended_at = $2::bigint, error = 'its process ended before it did'
WHERE job = $1::text AND state = 'running';

-- run_end ends a run. Args: row, state, time, time at which it resumes, error.
UPDATE headroom_catalog.runs SET state = $2::text, ended_at = $3::bigint, resume_at = $4::bigint, error = $5::text WHERE id = $1::bigint;

-- work_page counts a page of a unit of work. Args: run, work, region, units, new,
-- updated, unchanged, gone, statistics, units by pool, or empty to keep them.
INSERT INTO headroom_catalog.run_work AS w (run, work, region, pages, units, new, updated, unchanged, gone, statistics, charges)
VALUES ($1::bigint, $2::text, $3::text, 1, $4::bigint, $5::integer, $6::integer, $7::integer, $8::integer, $9::integer, $10::text)
ON CONFLICT (run, work) DO UPDATE SET pages = w.pages + 1, units = w.units + excluded.units, new = w.new + excluded.new,
	updated = w.updated + excluded.updated, unchanged = w.unchanged + excluded.unchanged, gone = w.gone + excluded.gone,
	statistics = w.statistics + excluded.statistics, charges = coalesce(nullif(excluded.charges, ''), w.charges), state = 'running', ended_at = 0, resume_at = 0, error = '', cause = '', pool = '';

-- work_end ends a unit of work. Args: run, work, region, state, time, time at which it
-- resumes, error, units of calls that saved no page, cause, pool, refused calls, units by pool, or empty to keep them.
INSERT INTO headroom_catalog.run_work AS w (run, work, region, state, ended_at, resume_at, error, units, cause, pool, refused, charges)
VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::text, $8::bigint, $9::text, $10::text, $11::bigint, $12::text)
ON CONFLICT (run, work) DO UPDATE SET state = excluded.state, ended_at = excluded.ended_at,
	resume_at = excluded.resume_at, error = excluded.error, units = w.units + excluded.units,
	cause = excluded.cause, pool = excluded.pool, refused = w.refused + excluded.refused, charges = coalesce(nullif(excluded.charges, ''), w.charges);

-- work_charges returns the units by pool of a unit of work. Args: run, work.
SELECT charges FROM headroom_catalog.run_work WHERE run = $1::bigint AND work = $2::text;

-- runs_find returns runs, the latest first. Args: '', id to begin before or 0, limit, whether to
-- leave out times that were skipped, the latest time that they were due at or 0. A failed run that resumes at the time
-- that it was due could not take its lock, and does not count as a run of that time. SQLite recompiles a statement for each
-- bound LIMIT, unless it is an expression.
SELECT id, job, scheduled_at, started_at, ended_at, state, resume_at, error FROM headroom_catalog.runs
WHERE $1::text = '' AND ($2::bigint = 0 OR id < $2::bigint)
	AND (NOT $4::boolean OR state <> 'skipped') AND ($5::bigint = 0 OR scheduled_at BETWEEN 1 AND $5::bigint AND NOT (state = 'failed' AND resume_at = scheduled_at)) ORDER BY id DESC LIMIT $3::bigint + 0;

-- runs_of_job returns the same of one job. Args: job, then those of runs_find.
SELECT id, job, scheduled_at, started_at, ended_at, state, resume_at, error FROM headroom_catalog.runs
WHERE job = $1::text AND ($2::bigint = 0 OR id < $2::bigint)
	AND (NOT $4::boolean OR state <> 'skipped') AND ($5::bigint = 0 OR scheduled_at BETWEEN 1 AND $5::bigint AND NOT (state = 'failed' AND resume_at = scheduled_at)) ORDER BY id DESC LIMIT $3::bigint + 0;

-- work_find returns the work of runs. Args: runs.
SELECT run, work, region, pages, units, new, updated, unchanged, statistics, gone, state, ended_at, resume_at, error, cause, pool, refused, charges
FROM headroom_catalog.run_work WHERE run = ANY($1::bigint[]) ORDER BY run, work;

-- spent returns the units of runs, by job. Args: time at which they began at the earliest.
SELECT r.job, sum(w.units)::bigint FROM headroom_catalog.runs r JOIN headroom_catalog.run_work w ON w.run = r.id
WHERE r.started_at >= $1::bigint GROUP BY r.job;

-- fence_find returns the highest token of a fence. Another process cannot change it until the
-- transaction ends. Args: name.
SELECT token FROM headroom_catalog.fences WHERE name = $1::text FOR SHARE;

-- fence_take returns a higher token than any before. Args: name, least token.
INSERT INTO headroom_catalog.fences AS f (name, token) VALUES ($1::text, $2::bigint)
ON CONFLICT (name) DO UPDATE SET token = greatest(f.token + 1, excluded.token) RETURNING token;

-- fence_save saves a token, and returns the highest. Args: name, token.
INSERT INTO headroom_catalog.fences AS f (name, token) VALUES ($1::text, $2::bigint)
ON CONFLICT (name) DO UPDATE SET token = greatest(f.token, excluded.token) RETURNING token;

-- ledger_find returns the ledger that runs are charged to, and since when.
SELECT address, since FROM headroom_catalog.ledger FOR UPDATE;

-- ledger_save saves the ledger that runs are charged to. Args: address, since when.
INSERT INTO headroom_catalog.ledger (one, address, since) VALUES (1, $1::text, $2::bigint)
ON CONFLICT (one) DO UPDATE SET address = excluded.address, since = excluded.since;

-- refusals_find returns the refused calls of runs and of callers, by pool, cause, hour and
-- caller. Args: time at which the work ended at the earliest.
SELECT pool, cause, (ended_at / 3600000000) * 3600000000, '' COLLATE "C", count(*), sum(refused)::bigint FROM headroom_catalog.run_work
WHERE pool <> '' AND ended_at >= $1::bigint GROUP BY 1, 2, 3
UNION ALL SELECT pool, cause, hour, caller, 0, calls FROM headroom_catalog.refusals WHERE hour >= $1::bigint ORDER BY 3, 1, 2, 4;

-- refusal_add counts refused calls of a caller. Args: pool, hour, cause, caller, calls.
INSERT INTO headroom_catalog.refusals AS r (pool, hour, cause, caller, calls)
VALUES ($1::text, $2::bigint, $3::text, $4::text, $5::bigint)
ON CONFLICT (pool, hour, cause, caller) DO UPDATE SET calls = r.calls + excluded.calls;

-- refusals_expire deletes the refusals of callers before an hour. Args: hour.
DELETE FROM headroom_catalog.refusals WHERE hour < $1::bigint;

-- day_save saves the totals of a pool on a day. Args: pool, day, units, calls, refused, blocked.
INSERT INTO headroom_catalog.pool_days (pool, day, units, calls, refused, blocked)
VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint)
ON CONFLICT (pool, day) DO UPDATE SET units = excluded.units, calls = excluded.calls, refused = excluded.refused, blocked = excluded.blocked;

-- days_expire deletes the totals of the days before one. Args: day.
DELETE FROM headroom_catalog.pool_days WHERE day < $1::text;

-- days_find returns the totals of a pool. Args: pool, the first day.
SELECT pool, day, units, calls, refused, blocked FROM headroom_catalog.pool_days WHERE pool = $1::text AND day >= $2::text ORDER BY day;

-- action_add notes what a person did. Args: time, who, what, target, detail.
INSERT INTO headroom_catalog.actions (at, who, what, target, detail) VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text);

-- actions_expire keeps the latest of the actions. Args: number.
DELETE FROM headroom_catalog.actions WHERE id <= (SELECT max(id) FROM headroom_catalog.actions) - $1::bigint;

-- actions_find returns the latest actions. Args: limit.
SELECT at, who, what, target, detail FROM headroom_catalog.actions ORDER BY id DESC LIMIT $1::bigint;

-- slate_get returns a text that processes share. Args: name.
SELECT text, version FROM headroom_catalog.slates WHERE name = $1::text;

-- slate_set writes a text that processes share, if it has a version. Args: name, text, version.
INSERT INTO headroom_catalog.slates AS s (name, text, version) VALUES ($1::text, $2::text, 1)
ON CONFLICT (name) DO UPDATE SET text = excluded.text, version = s.version + 1 WHERE s.version = $3::bigint;
