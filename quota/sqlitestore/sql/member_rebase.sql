-- Saves the page of a key whose clock had been far ahead. Args: id, used, written, page.
UPDATE members SET used = ?2, written = ?3, page = ?4 WHERE id = ?1
