-- replication returns how many bytes of the log the slowest replica lacks, or NULL. A slot
-- counts for a replica that is not connected.
SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), at))::bigint FROM (
	SELECT replay_lsn FROM pg_stat_replication
	UNION ALL SELECT coalesce(confirmed_flush_lsn, restart_lsn) FROM pg_replication_slots WHERE NOT temporary
) AS replicas (at);
