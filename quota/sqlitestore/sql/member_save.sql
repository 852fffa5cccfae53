-- Saves the page of a key. Args: id, windows, used, written, page, listed.
UPDATE members SET windows = ?2, used = ?3, written = ?4, page = ?5, listed = ?6 WHERE id = ?1
