-- Remembers a pool for longer, or its new page. Args: id, zone, born, counts until.
UPDATE births SET zone = ?2, born = ?3, counts_until = ?4 WHERE id = ?1
