-- Saves a cursor. Args: its columns as they are listed.
INSERT INTO cursors (job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (job, work) DO UPDATE SET pass = excluded.pass, page = excluded.page, token = excluded.token,
	since = excluded.since, high = excluded.high, mark = excluded.mark, saved_at = excluded.saved_at,
	completed_at = excluded.completed_at, resume_at = excluded.resume_at,
	blocked_on = excluded.blocked_on
