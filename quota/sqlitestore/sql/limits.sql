-- limit_set sets the limit of a key. Its version is at least the time, so that none is given
-- twice, even if a backup was restored. SQLite looks into the index for a maximum only if nothing is
-- calculated with it there. Args: family, key, quota, who, why, time, when it ends,
-- headroom.
INSERT INTO limits (family, key, quota, who, why, made, version, ends, ends_of, headroom, headroom_of)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, next, ?7, next, ?8, next FROM (SELECT max(coalesce((SELECT max(version) FROM limits), 0) + 1, ?6) AS next) WHERE true
ON CONFLICT (family, key) DO UPDATE SET quota = excluded.quota, who = excluded.who, why = excluded.why, made = excluded.made,
	version = excluded.version, ends = excluded.ends, ends_of = excluded.ends_of,
	headroom = excluded.headroom, headroom_of = excluded.headroom_of;

-- limit_find returns the limit of a key. Args: family, key.
SELECT family, key, quota, who, why, made, version, CASE ends_of WHEN version THEN ends ELSE 0 END, CASE headroom_of WHEN version THEN headroom END FROM limits WHERE family = ?1 AND key = ?2;

-- limits_after returns the limits in the order in which they changed. Args: after this
-- version, how many at most. SQLite recompiles the statement for each bound LIMIT, unless it is an
-- expression.
SELECT family, key, quota, who, why, made, version, CASE ends_of WHEN version THEN ends ELSE 0 END, CASE headroom_of WHEN version THEN headroom END
FROM limits WHERE version > ?1 ORDER BY version LIMIT ?2 + 0;

-- limit_note keeps the last change of a key's limit for people to read. Args: family, key.
INSERT INTO limit_changes (version, family, key, quota, who, why, made, ends, headroom)
SELECT version, family, key, quota, who, why, made, ends, headroom FROM limits WHERE family = ?1 AND key = ?2;

-- limit_changes_prune keeps only the last changes. Args: how many.
DELETE FROM limit_changes WHERE version <= (SELECT version FROM limit_changes ORDER BY version DESC LIMIT 1 OFFSET ?1);

-- limit_changes returns the last changes, the latest first. Args: how many at most.
SELECT family, key, quota, who, why, made, version, ends, headroom FROM limit_changes ORDER BY version DESC LIMIT ?1;
