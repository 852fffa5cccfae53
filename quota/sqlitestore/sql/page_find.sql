-- Finds a pool by name. Args: upstream, account, pool. Returns its birth and its
-- page; either may be missing.
SELECT b.id, b.born, b.counts_until, b.zone, p.id, p.stamp, p.reason, p.page
FROM (SELECT ?1 AS upstream, ?2 AS account, ?3 AS pool) AS n
LEFT JOIN births AS b ON b.upstream = n.upstream AND b.account = n.account AND b.pool = n.pool
LEFT JOIN pools AS p ON p.upstream = n.upstream AND p.account = n.account AND p.pool = n.pool
