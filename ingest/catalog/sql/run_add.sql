-- Begins a run. Args: job, when it was scheduled, the time.
INSERT INTO runs (job, scheduled_at, started_at, ended_at, state, resume_at, error)
VALUES (?1, ?2, ?3, 0, 'running', 0, '')
