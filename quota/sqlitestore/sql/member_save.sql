-- Saves the page of a key. Args: windows (NULL: as they were), used, written, page,
-- listed, id.
UPDATE members SET windows = coalesce(?1, windows), used = ?2, written = ?3, page = ?4, listed = ?5 WHERE id = ?6
