-- run_add begins a run. Args: job, time at which it was scheduled, time.
INSERT INTO runs (job, scheduled_at, started_at, ended_at, state, resume_at, error)
VALUES (?1, ?2, ?3, 0, 'running', 0, '');

-- run_abandon ends the runs of a job whose process died. Args: job, time.
UPDATE runs SET state = 'failed', ended_at = ?2, error = 'its process ended before it did'
WHERE job = ?1 AND state = 'running';

-- run_end ends a run. Args: row, state, time, time at which it resumes, error.
UPDATE runs SET state = ?2, ended_at = ?3, resume_at = ?4, error = ?5 WHERE id = ?1;

-- work_page counts a page of a unit of work. Args: run, work, region, units, new,
-- updated, unchanged, gone, statistics.
INSERT INTO run_work (run, work, region, pages, units, new, updated, unchanged, gone, statistics)
VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (run, work) DO UPDATE SET pages = pages + 1, units = units + excluded.units, new = new + excluded.new,
	updated = updated + excluded.updated, unchanged = unchanged + excluded.unchanged, gone = gone + excluded.gone,
	statistics = statistics + excluded.statistics, state = 'running', ended_at = 0, resume_at = 0, error = '', cause = '', pool = '';

-- work_abandon ends the work of runs whose process died. Args: job, time.
UPDATE run_work SET state = 'failed', ended_at = ?2, error = 'its process ended before it did', cause = 'ended'
WHERE state = 'running' AND run IN (SELECT id FROM runs WHERE job = ?1 AND state = 'running');

-- work_end ends a unit of work. Args: run, work, region, state, time, time at which it
-- resumes, error, units of calls that saved no page, cause, pool, refused calls.
INSERT INTO run_work (run, work, region, state, ended_at, resume_at, error, units, cause, pool, refused)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (run, work) DO UPDATE SET state = excluded.state, ended_at = excluded.ended_at,
	resume_at = excluded.resume_at, error = excluded.error, units = units + excluded.units,
	cause = excluded.cause, pool = excluded.pool, refused = refused + excluded.refused;

-- cursor_find returns a cursor. Args: job, work.
SELECT job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on
FROM cursors WHERE job = ?1 AND work = ?2;

-- cursor_save saves a cursor. Args: the columns as listed.
INSERT INTO cursors (job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (job, work) DO UPDATE SET pass = excluded.pass, page = excluded.page, token = excluded.token,
	since = excluded.since, high = excluded.high, mark = excluded.mark, saved_at = excluded.saved_at,
	completed_at = excluded.completed_at, resume_at = excluded.resume_at,
	blocked_on = excluded.blocked_on;

-- cursor_reset forgets the position of a unit of work. The number of passes grows, so
-- that an earlier page is still recognized. Args: job, work.
UPDATE cursors SET pass = pass + 1, page = 0, token = '', since = 0, high = 0, mark = 0,
	saved_at = 0, completed_at = 0, resume_at = 0, blocked_on = ''
WHERE job = ?1 AND work = ?2;

-- fence_find returns the highest token of a fence. Args: name.
SELECT token FROM fences WHERE name = ?1;

-- fence_save saves the highest token of a fence. Args: name, token.
INSERT INTO fences (name, token) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET token = excluded.token;

-- ledger_find returns the ledger that runs are charged to, and since when.
SELECT address, since FROM ledger;

-- ledger_save saves the ledger that runs are charged to. Args: address, since when.
INSERT INTO ledger (one, address, since) VALUES (1, ?1, ?2) ON CONFLICT (one) DO UPDATE SET address = excluded.address, since = excluded.since;

-- day_save saves the totals of a pool on a day. Args: pool, day, units, calls, refused, blocked.
INSERT INTO pool_days (pool, day, units, calls, refused, blocked) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (pool, day) DO UPDATE SET units = excluded.units, calls = excluded.calls, refused = excluded.refused, blocked = excluded.blocked;

-- days_expire deletes the totals of the days before one. Args: day.
DELETE FROM pool_days WHERE day < ?1;

-- refusal_add counts refused calls of a caller. Args: pool, hour, cause, caller, calls.
INSERT INTO refusals (pool, hour, cause, caller, calls) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (pool, hour, cause, caller) DO UPDATE SET calls = calls + excluded.calls;

-- refusals_expire deletes the refusals of callers before an hour. Args: hour.
DELETE FROM refusals WHERE hour < ?1;

-- action_add notes what a person did. Args: time, who, what, target, detail.
INSERT INTO actions (at, who, what, target, detail) VALUES (?1, ?2, ?3, ?4, ?5);

-- actions_expire keeps the latest of the actions. Args: number.
DELETE FROM actions WHERE id <= (SELECT max(id) FROM actions) - ?1;

-- slate_set writes a text that processes share, if it has a version. Args: name, text, version.
INSERT INTO slates (name, text, version) VALUES (?1, ?2, 1)
ON CONFLICT (name) DO UPDATE SET text = excluded.text, version = version + 1 WHERE version = ?3;
