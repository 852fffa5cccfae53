-- limits_lock makes changes of limits take turns, so that a reader who has seen a version has
-- seen all before it. No args.
LOCK TABLE headroom_ledger.limits IN EXCLUSIVE MODE;

-- limit_set sets the limit of a key, and keeps the change for people to read. Now and then it
-- forgets old changes. The version is at least the time, so that none is given twice, even if a
-- backup was restored. Args: family, key, quota, who, why, how many changes are kept at least, the
-- time or null for the server's, when it ends or 0, headroom.
WITH clock AS (
	SELECT coalesce($7::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), last AS (
	SELECT greatest(coalesce(max(version), 0) + 1, (SELECT now FROM clock)) AS version FROM headroom_ledger.limits
), kept AS (
	INSERT INTO headroom_ledger.limits (family, key, quota, who, why, made, version, ends, ends_of, headroom, headroom_of)
	SELECT $1::text, $2::text, $3::bigint, $4::text, $5::text, clock.now, last.version, $8::bigint, last.version, $9::bigint, last.version FROM clock, last
	ON CONFLICT (family, key) DO UPDATE SET quota = excluded.quota, who = excluded.who, why = excluded.why, made = excluded.made,
		version = excluded.version, ends = excluded.ends, ends_of = excluded.ends_of,
		headroom = excluded.headroom, headroom_of = excluded.headroom_of
	RETURNING family, key, quota, who, why, made, version, ends, headroom
), noted AS (
	INSERT INTO headroom_ledger.limit_changes (family, key, quota, who, why, made, version, ends, headroom) SELECT * FROM kept
), pruned AS (
	DELETE FROM headroom_ledger.limit_changes WHERE (SELECT version FROM last) % 256 = 0 AND version <= (
		SELECT version FROM headroom_ledger.limit_changes ORDER BY version DESC LIMIT 1 OFFSET $6::bigint - 1
	)
)
SELECT * FROM kept;

-- limit_find returns the limit of a key. Args: family, key.
SELECT family, key, quota, who, why, made, version, CASE ends_of WHEN version THEN ends ELSE 0 END, CASE headroom_of WHEN version THEN headroom END
FROM headroom_ledger.limits WHERE family = $1::text AND key = $2::text;

-- limits_after returns the limits in the order in which they changed. Args: after this version,
-- how many at most.
SELECT family, key, quota, who, why, made, version, CASE ends_of WHEN version THEN ends ELSE 0 END, CASE headroom_of WHEN version THEN headroom END
FROM headroom_ledger.limits WHERE version > $1::bigint ORDER BY version LIMIT $2::bigint;

-- limit_changes returns the last changes, the latest first. Args: how many at most.
SELECT family, key, quota, who, why, made, version, ends, headroom FROM headroom_ledger.limit_changes ORDER BY version DESC LIMIT $1::bigint;
