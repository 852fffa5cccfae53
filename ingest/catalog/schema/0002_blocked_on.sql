-- The pool whose block defers a unit of work, or empty. The work resumes when the pool is
-- open, which may be before its resume_at.
ALTER TABLE cursors ADD COLUMN blocked_on TEXT NOT NULL DEFAULT '';
