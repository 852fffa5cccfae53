-- Adds the page of a pool that has none. Args: upstream, account, pool, born,
-- revision, written, blocked until, reason, windows, used, stamp, page.
INSERT INTO pools (upstream, account, pool, born, revision, written, blocked_until, reason, windows, used, stamp, page)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
