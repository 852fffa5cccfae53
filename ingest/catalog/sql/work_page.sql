-- Counts a page of a unit of work. Args: run, work, region, units, new, updated,
-- unchanged, gone, statistics.
INSERT INTO run_work (run, work, region, pages, units, new, updated, unchanged, gone, statistics)
VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (run, work) DO UPDATE SET pages = pages + 1, units = units + excluded.units, new = new + excluded.new,
	updated = updated + excluded.updated, unchanged = unchanged + excluded.unchanged, gone = gone + excluded.gone,
	statistics = statistics + excluded.statistics, state = 'running', ended_at = 0, resume_at = 0, error = ''
