-- Forgets how far a unit of work has got. Its passes count on, so that a page of
-- before is known as one. Args: job, work.
UPDATE cursors SET pass = pass + 1, page = 0, token = '', since = 0, high = 0, mark = 0,
	saved_at = 0, completed_at = 0, resume_at = 0, blocked_on = ''
WHERE job = ?1 AND work = ?2
