-- replication returns how many bytes of the log the slowest replica lacks, or NULL. A slot
-- counts for a replica that is not connected.
SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), at))::bigint FROM (
	SELECT replay_lsn FROM pg_stat_replication
	UNION ALL SELECT coalesce(confirmed_flush_lsn, restart_lsn) FROM pg_replication_slots WHERE NOT temporary
) AS replicas (at);

-- locks returns who has kept others from writing tables of the fleet for more than a second: with a lock
-- on a table, or with what one of our processes waits for, such as a row. It leaves out those of ours that wait
-- themselves, and autovacuum, which gives way. It returns the table (empty for a row), the process, its
-- user, its program, for how many seconds, and its last statement. Without the right pg_read_all_stats,
-- less is known of processes of other users.
WITH found AS (
	SELECT l.pid, n.nspname || '.' || c.relname AS what
	FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND n.nspname IN ('headroom_fleet', 'headroom_catalog')
		AND c.relkind = 'r' AND l.granted AND l.locktype = 'relation' AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
	UNION
	SELECT b.pid, coalesce((SELECT n.nspname || '.' || c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE l.pid = w.pid AND NOT l.granted AND l.locktype = 'relation' LIMIT 1), '')
	FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
	WHERE w.datname = current_database() AND w.usename = current_user AND w.wait_event_type = 'Lock' AND w.query_start < clock_timestamp() - interval '1 s'
)
SELECT max(f.what), a.pid, coalesce(a.usename, ''), coalesce(nullif(a.application_name, ''), a.backend_type, ''),
	coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float8, coalesce(a.query, '')
FROM found f JOIN pg_stat_activity a ON a.pid = f.pid
WHERE a.pid <> pg_backend_pid() AND a.backend_type IS DISTINCT FROM 'autovacuum worker' AND (a.usename = current_user AND a.wait_event_type = 'Lock') IS NOT TRUE AND coalesce(a.xact_start < clock_timestamp() - interval '1 s', true)
GROUP BY a.pid, a.usename, a.application_name, a.backend_type, a.xact_start, a.query ORDER BY a.xact_start, a.pid;

-- queue_write takes the lock that daemons need to write the tables of the fleet.
LOCK TABLE headroom_fleet.runs, headroom_fleet.units, headroom_fleet.works, headroom_fleet.daemons, headroom_fleet.river_job, headroom_fleet.river_queue IN ROW EXCLUSIVE MODE;
