-- chart_lock returns the chart that is being fetched, which no one else changes until the
-- transaction ends. Args: region, category.
SELECT id FROM headroom_catalog.charts WHERE region = $1::text AND category = $2::text AND NOT complete FOR UPDATE;

-- chart_drop deletes a chart. Args: region, category, whether it is the complete one.
DELETE FROM headroom_catalog.charts WHERE region = $1::text AND category = $2::text AND complete = $3::boolean;

-- chart_add begins a chart. Args: region, category, time.
INSERT INTO headroom_catalog.charts (region, category, complete, fetched_at) VALUES ($1::text, $2::text, false, $3::bigint);

-- chart_show makes the chart that was being fetched the complete one. Args: region, category.
UPDATE headroom_catalog.charts SET complete = true WHERE region = $1::text AND category = $2::text AND NOT complete;

-- feeds returns the freshness of every chart.
SELECT region, category, max(CASE WHEN complete THEN fetched_at ELSE 0 END)::bigint, sum(CASE WHEN complete THEN n ELSE 0 END)::bigint,
	max(CASE WHEN complete THEN 0 ELSE fetched_at END)::bigint, sum(CASE WHEN complete THEN 0 ELSE n END)::bigint
FROM (SELECT c.*, (SELECT count(*) FROM headroom_catalog.chart_entries e WHERE e.chart = c.id) AS n FROM headroom_catalog.charts c) AS all_charts
GROUP BY region, category ORDER BY region, category;
