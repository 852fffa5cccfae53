-- copy_find returns the source of a copy that is not complete.
SELECT source FROM headroom_catalog.copying;

-- copy_begin notes that a copy has begun. Args: source.
INSERT INTO headroom_catalog.copying VALUES (1, $1::text, '', '[]');

-- copy_end notes that the copy is complete.
DELETE FROM headroom_catalog.copying;

-- number_on makes new rows continue the numbers of copied ones.
SELECT setval(pg_get_serial_sequence('headroom_catalog.videos', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.videos), false),
	setval(pg_get_serial_sequence('headroom_catalog.actions', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.actions), false),
	setval(pg_get_serial_sequence('headroom_catalog.charts', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.charts), false),
	setval(pg_get_serial_sequence('headroom_catalog.runs', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM headroom_catalog.runs), false);

-- columns_find returns the names of the columns of a table. Args: table.
SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass('headroom_catalog.' || $1::text) AND attnum > 0 AND NOT attisdropped;
