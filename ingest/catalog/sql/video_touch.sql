-- Says that a video was fetched again as it is. Args: its row, the time.
UPDATE videos SET fetched_at = ?2 WHERE id = ?1
