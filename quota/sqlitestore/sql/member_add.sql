-- Adds the page of a key. Args: windows, used, written, page, listed, upstream,
-- account, key.
INSERT INTO members (windows, used, written, page, listed, upstream, account, key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
