-- clock returns the time of the database.
SELECT clock_timestamp();

-- daemon_save notes that a daemon is alive, and returns the time. Args: the columns as listed
-- without the times.
INSERT INTO headroom_fleet.daemons (id, host, pid, version, revision, state, skew, jobs, units, settings, started_at, seen_at)
VALUES ($1::text, $2::text, $3::integer, $4::text, $5::bigint, $6::text, $7::bigint, $8::text[], $9::bigint, $10::text[], clock_timestamp(), clock_timestamp())
ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, state = excluded.state, skew = excluded.skew, jobs = excluded.jobs, units = excluded.units,
	settings = excluded.settings, seen_at = excluded.seen_at
RETURNING clock_timestamp();

-- daemon_end forgets a daemon that ended by itself. Args: daemon.
DELETE FROM headroom_fleet.daemons WHERE id = $1::text;

-- daemons_forget forgets daemons that were not seen for a day.
DELETE FROM headroom_fleet.daemons WHERE seen_at < clock_timestamp() - interval '1 day';

-- daemons_others tells whether another daemon was seen since a time ago. Args: daemon, seconds.
SELECT EXISTS (SELECT 1 FROM headroom_fleet.daemons WHERE id <> $1::text AND seen_at > clock_timestamp() - make_interval(secs => $2::float8));

-- daemons_differ tells whether another daemon that was seen since a time ago has other settings
-- of a job, or does not say which. Args: daemon, seconds, job, digest of its settings.
SELECT EXISTS (SELECT 1 FROM headroom_fleet.daemons WHERE id <> $1::text AND seen_at > clock_timestamp() - make_interval(secs => $2::float8)
	AND $3::text = ANY (jobs) AND settings[array_position(jobs, $3::text)] IS DISTINCT FROM $4::text);

-- daemons_all returns the daemons, with the time of the database and the leader. It leaves out those that
-- vanished before another began on their host, which took their place.
SELECT d.id, d.host, d.pid, d.version, d.revision, d.state, d.skew, d.started_at, d.seen_at, d.jobs, d.units, clock_timestamp(),
	EXISTS (SELECT 1 FROM headroom_fleet.river_leader l WHERE l.leader_id = d.id AND l.expires_at > clock_timestamp())
FROM headroom_fleet.daemons d
WHERE NOT EXISTS (SELECT 1 FROM headroom_fleet.daemons n WHERE n.host = d.host AND n.started_at > d.seen_at AND n.id <> d.id)
ORDER BY d.started_at, d.id;
