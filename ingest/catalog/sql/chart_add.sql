-- Begins a chart. Args: region, category, the time.
INSERT INTO charts (region, category, complete, fetched_at) VALUES (?1, ?2, 0, ?3)
