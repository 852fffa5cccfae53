-- entries_add adds videos to the chart that is being fetched, behind those it has. A video
-- that moved down between two fetches is on both pages. It keeps its first rank. Args: region,
-- category, ids.
INSERT INTO headroom_catalog.chart_entries (chart, rank, video)
SELECT c.id, (SELECT coalesce(max(rank), 0) FROM headroom_catalog.chart_entries WHERE chart = c.id) + row_number() OVER (ORDER BY n.place), v.id
FROM unnest($3::text[]) WITH ORDINALITY AS n (video_id, place)
JOIN headroom_catalog.videos v ON v.video_id = n.video_id
JOIN headroom_catalog.charts c ON c.region = $1::text AND c.category = $2::text AND NOT c.complete
WHERE NOT EXISTS (SELECT 1 FROM headroom_catalog.chart_entries WHERE chart = c.id AND video = v.id);
