-- copy_find returns the copy that is not complete.
SELECT source, at_table, last_key FROM headroom_catalog.copying;

-- copy_begin notes that a copy has begun. Args: source.
INSERT INTO headroom_catalog.copying VALUES (1, $1::text, '', '[]');

-- copy_save notes how far a copy has come. Args: table, key as JSON.
UPDATE headroom_catalog.copying SET at_table = $1::text, last_key = $2::text;

-- copy_end notes that the copy is complete.
DELETE FROM headroom_catalog.copying;

-- number_on makes new rows continue the numbers of copied ones.
SELECT setval(pg_get_serial_sequence('headroom_catalog.videos', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.videos), false),
	setval(pg_get_serial_sequence('headroom_catalog.actions', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.actions), false),
	setval(pg_get_serial_sequence('headroom_catalog.charts', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.charts), false),
	setval(pg_get_serial_sequence('headroom_catalog.runs', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.runs), false);
