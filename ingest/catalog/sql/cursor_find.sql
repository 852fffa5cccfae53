-- Finds a cursor. Args: job, work.
SELECT job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on
FROM cursors WHERE job = ?1 AND work = ?2
