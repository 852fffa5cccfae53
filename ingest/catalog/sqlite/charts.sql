-- entries_add adds videos to the chart that is being fetched, behind those it has. A video
-- that moved down between two fetches is on both pages. It keeps its first rank. Args: region,
-- category, ids.
INSERT INTO chart_entries (chart, rank, video)
SELECT c.id, (SELECT coalesce(max(rank), 0) FROM chart_entries WHERE chart = c.id) + row_number() OVER (ORDER BY n.key), v.id
FROM json_each(?3) AS n JOIN videos v ON v.video_id = n.value
JOIN charts c ON c.region = ?1 AND c.category = ?2 AND NOT c.complete
WHERE NOT EXISTS (SELECT 1 FROM chart_entries WHERE chart = c.id AND video = v.id);
