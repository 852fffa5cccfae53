-- Adds a place to a chart, unless it has the video already. Args: chart, rank, video.
INSERT INTO chart_entries (chart, rank, video) VALUES (?1, ?2, ?3) ON CONFLICT (video, chart) DO NOTHING
