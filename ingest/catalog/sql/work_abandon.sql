-- Ends the work of runs whose process is gone. Args: job, the time.
UPDATE run_work SET state = 'failed', ended_at = ?2, error = 'its process ended before it did'
WHERE state = 'running' AND run IN (SELECT id FROM runs WHERE job = ?1 AND state = 'running')
