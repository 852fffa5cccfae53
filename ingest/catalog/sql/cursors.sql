-- cursor_find returns a cursor. Args: job, work.
SELECT job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on
FROM headroom_catalog.cursors WHERE job = $1::text AND work = $2::text;

-- cursor_lock returns a cursor that no one else moves until the transaction ends. Args: job,
-- work.
SELECT job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on
FROM headroom_catalog.cursors WHERE job = $1::text AND work = $2::text FOR UPDATE;

-- cursors_find returns the cursors of a job, or of all. Args: job or ''.
SELECT job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on
FROM headroom_catalog.cursors WHERE $1::text = '' OR job = $1::text ORDER BY completed_at, job, work;

-- cursor_add adds a cursor. It fails if another process has just added it. Args: the columns
-- as listed.
INSERT INTO headroom_catalog.cursors (job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on)
VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::text, $6::bigint, $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::text);

-- cursor_save changes a cursor. Args: those of cursor_add.
UPDATE headroom_catalog.cursors SET pass = $3::bigint, page = $4::bigint, token = $5::text, since = $6::bigint, high = $7::bigint,
	mark = $8::bigint, saved_at = $9::bigint, completed_at = $10::bigint, resume_at = $11::bigint, blocked_on = $12::text
WHERE job = $1::text AND work = $2::text;

-- cursor_reset forgets the position of a unit of work. The number of passes grows, so
-- that an earlier page is still recognized. Args: job, work.
UPDATE headroom_catalog.cursors SET pass = pass + 1, page = 0, token = '', since = 0, high = 0, mark = 0,
	saved_at = 0, completed_at = 0, resume_at = 0, blocked_on = ''
WHERE job = $1::text AND work = $2::text;
