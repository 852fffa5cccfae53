-- Says that a video was fetched for a region. Args: region, row, the time.
INSERT INTO sightings (region, video, seen_at) VALUES (?1, ?2, ?3)
ON CONFLICT (region, video) DO UPDATE SET seen_at = excluded.seen_at
