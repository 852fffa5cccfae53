-- Ends a run. Args: run, state, the time, when it goes on, error.
UPDATE runs SET state = ?2, ended_at = ?3, resume_at = ?4, error = ?5 WHERE id = ?1
