-- Finds the chart that is being fetched, and its last place. Args: region, category.
SELECT id, (SELECT coalesce(max(rank), 0) FROM chart_entries WHERE chart = c.id)
FROM charts AS c WHERE region = ?1 AND category = ?2 AND complete = 0
