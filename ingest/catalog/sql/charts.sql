-- chart_drop deletes a chart. Args: region, category, whether it is the complete one.
DELETE FROM charts WHERE region = ?1 AND category = ?2 AND complete = ?3;

-- chart_add begins a chart. Args: region, category, time.
INSERT INTO charts (region, category, complete, fetched_at) VALUES (?1, ?2, 0, ?3);

-- chart_pending returns the row and the last rank of the chart that is being fetched.
-- Args: region, category.
SELECT id, (SELECT coalesce(max(rank), 0) FROM chart_entries WHERE chart = c.id)
FROM charts AS c WHERE region = ?1 AND category = ?2 AND complete = 0;

-- entry_add adds an entry to a chart, unless the chart has the video. Args: chart, rank,
-- video.
INSERT INTO chart_entries (chart, rank, video) VALUES (?1, ?2, ?3) ON CONFLICT (video, chart) DO NOTHING;

-- chart_show makes a chart the complete one. Args: row.
UPDATE charts SET complete = 1 WHERE id = ?1;
