-- replication returns how many bytes of the log the slowest replica lacks, or NULL. A slot
-- counts for a replica that is not connected.
SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), at))::bigint FROM (
	SELECT replay_lsn FROM pg_stat_replication
	UNION ALL SELECT coalesce(confirmed_flush_lsn, restart_lsn) FROM pg_replication_slots WHERE NOT temporary
) AS replicas (at);

-- locks returns the locks on tables of the fleet that keep others from writing, who has them, and for how
-- many seconds they may have had them.
SELECT DISTINCT n.nspname || '.' || c.relname, a.pid, coalesce(a.usename, ''), coalesce(nullif(a.application_name, ''), a.backend_type),
	extract(epoch FROM statement_timestamp() - a.xact_start)::float8, coalesce(a.query, '')
FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND n.nspname IN ('headroom_fleet', 'headroom_catalog')
	AND c.relkind = 'r' AND l.granted AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
	AND a.pid <> pg_backend_pid() AND a.xact_start < clock_timestamp() - interval '1 s'
ORDER BY 5 DESC, 2, 1;

-- queue_write takes the lock that daemons need to write the tables of the fleet.
LOCK TABLE headroom_fleet.runs, headroom_fleet.units, headroom_fleet.works, headroom_fleet.daemons, headroom_fleet.river_job, headroom_fleet.river_queue IN ROW EXCLUSIVE MODE;
