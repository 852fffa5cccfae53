-- Adds the page of a key. Args: upstream, account, key, windows, used, written, page,
-- listed.
INSERT INTO members (upstream, account, key, windows, used, written, page, listed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
