-- The pool whose block has deferred a unit of work; empty is none. It goes on when the
-- pool is open, which may be before its resume_at.
ALTER TABLE cursors ADD COLUMN blocked_on TEXT NOT NULL DEFAULT '';
