-- Saves the page of a key. Args: id, windows, used, written, page.
UPDATE members SET windows = ?2, used = ?3, written = ?4, page = ?5 WHERE id = ?1
