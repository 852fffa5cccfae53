-- Ends the runs of a job whose process is gone. Args: job, the time.
UPDATE runs SET state = 'failed', ended_at = ?2, error = 'its process ended before it did'
WHERE job = ?1 AND state = 'running'
