-- page_find returns the birth and the page of a pool. Either may be missing. Args:
-- upstream, account, pool.
SELECT b.id, b.born, b.counts_until, b.zone, p.id, p.stamp, p.reason, p.page
FROM (SELECT ?1 AS upstream, ?2 AS account, ?3 AS pool) AS n
LEFT JOIN births AS b ON b.upstream = n.upstream AND b.account = n.account AND b.pool = n.pool
LEFT JOIN pools AS p ON p.upstream = n.upstream AND p.account = n.account AND p.pool = n.pool;

-- page_load returns the page of a pool by its number. It returns no page if the stamp is
-- the given one, because the caller has that page. Args: id, stamp.
SELECT stamp, reason, CASE WHEN stamp <> ?2 THEN page END FROM pools WHERE id = ?1;

-- page_save saves the page of a pool. Args: revision, written, blocked until, reason,
-- windows (NULL keeps them), used, stamp, page, id.
UPDATE pools SET revision = ?1, written = ?2, blocked_until = ?3, reason = ?4, windows = coalesce(?5, windows), used = ?6, stamp = ?7, page = ?8
WHERE id = ?9;

-- page_add adds the page of a pool. Args: revision, written, blocked until, reason,
-- windows, used, stamp, page, upstream, account, pool, born.
INSERT INTO pools (revision, written, blocked_until, reason, windows, used, stamp, page, upstream, account, pool, born)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- birth_add remembers a pool. Args: upstream, account, pool, zone, born, counts until.
INSERT INTO births (upstream, account, pool, zone, born, counts_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- birth_find returns the number of a pool, and the zone of its days. Args: upstream,
-- account, pool.
SELECT id, zone FROM births WHERE upstream = ?1 AND account = ?2 AND pool = ?3;

-- birth_zone changes the zone of a pool's days. Args: id, zone.
UPDATE births SET zone = ?2 WHERE id = ?1;

-- birth_save remembers a pool for longer, or its new page. Args: id, zone, born, counts
-- until.
UPDATE births SET zone = ?2, born = ?3, counts_until = ?4 WHERE id = ?1;

-- identity_find returns the ledger's identity, and its path when copies were last looked
-- for.
SELECT id, path FROM identity;

-- identity_move saves the path of the ledger. Args: path.
UPDATE identity SET path = ?1;
