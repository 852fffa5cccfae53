-- Adds the page of a pool that has none. Args: revision, written, blocked until,
-- reason, windows, used, stamp, page, upstream, account, pool, born.
INSERT INTO pools (revision, written, blocked_until, reason, windows, used, stamp, page, upstream, account, pool, born)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
