-- chart_lock returns the chart that is being fetched, which no one else changes until the
-- transaction ends. Args: region, category.
SELECT id FROM headroom_catalog.charts WHERE region = $1::text AND category = $2::text AND NOT complete FOR UPDATE;

-- chart_drop deletes a chart. Args: region, category, whether it is the complete one.
DELETE FROM headroom_catalog.charts WHERE region = $1::text AND category = $2::text AND complete = $3::boolean;

-- chart_add begins a chart. Args: region, category, time.
INSERT INTO headroom_catalog.charts (region, category, complete, fetched_at) VALUES ($1::text, $2::text, false, $3::bigint);

-- entries_add adds videos to the chart that is being fetched, behind those it has. A video
-- that moved down between two fetches is on both pages. It keeps its first rank. Args: region,
-- category, ids.
INSERT INTO headroom_catalog.chart_entries (chart, rank, video)
SELECT c.id, (SELECT coalesce(max(rank), 0) FROM headroom_catalog.chart_entries WHERE chart = c.id) + row_number() OVER (ORDER BY n.place), v.id
FROM unnest($3::text[]) WITH ORDINALITY AS n (video_id, place)
JOIN headroom_catalog.videos v ON v.video_id = n.video_id
JOIN headroom_catalog.charts c ON c.region = $1::text AND c.category = $2::text AND NOT c.complete
WHERE NOT EXISTS (SELECT 1 FROM headroom_catalog.chart_entries WHERE chart = c.id AND video = v.id);

-- chart_show makes the chart that was being fetched the complete one. Args: region, category.
UPDATE headroom_catalog.charts SET complete = true WHERE region = $1::text AND category = $2::text AND NOT complete;

-- feeds returns the freshness of every chart.
SELECT region, category, max(CASE WHEN complete THEN fetched_at ELSE 0 END)::bigint, sum(CASE WHEN complete THEN n ELSE 0 END)::bigint,
	max(CASE WHEN complete THEN 0 ELSE fetched_at END)::bigint, sum(CASE WHEN complete THEN 0 ELSE n END)::bigint
FROM (SELECT c.*, (SELECT count(*) FROM headroom_catalog.chart_entries e WHERE e.chart = c.id) AS n FROM headroom_catalog.charts c) AS all_charts
GROUP BY region, category ORDER BY region, category;
