-- Finds the charges of an id, the latest first. Args: id, upstream, account.
SELECT r.number, b.pool, r.nonce, r.made, r.at, r.reserved, r.generation, r.settled, r.back, r.left_, r.charged, r.units
FROM reservations AS r JOIN births AS b ON b.id = r.pool_id
WHERE r.id = ?1 AND b.upstream = ?2 AND b.account = ?3
ORDER BY r.number DESC
