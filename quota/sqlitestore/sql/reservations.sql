-- reservation_add adds a charge. Args: pool id, id, nonce, made, at, day, units,
-- reserved, generation, method, job, region, class, reason, key, shared.
INSERT INTO reservations (pool_id, id, nonce, made, at, day, units, reserved, calls, generation, method, job, region, class, reason, key, shared)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- receipt_find returns the charges of an id, the latest first. Args: id, upstream,
-- account.
SELECT r.number, b.pool, r.nonce, r.made, r.at, r.reserved, r.generation, r.settled, r.back, r.left_, r.charged, r.units, r.key, r.shared, r.day
FROM reservations AS r JOIN births AS b ON b.id = r.pool_id
WHERE r.id = ?1 AND b.upstream = ?2 AND b.account = ?3
ORDER BY r.number DESC;

-- receipt_keep moves a charge of a receipt with slots along, which count on no day: ''.
-- Args: number, made, at, units, generation.
UPDATE reservations SET made = ?2, at = ?3, units = ?4, generation = ?5 WHERE number = ?1;

-- receipt_settle settles a charge. Args: number, units, calls, back, left, charged.
UPDATE reservations SET units = ?2, calls = ?3, settled = 1, back = ?4, left_ = ?5, charged = ?6 WHERE number = ?1;

-- receipt_part adds a part of a charge that was settled by itself. Its units are those by
-- which it changes the charge. Args: number of the charge, id, nonce, made, units, reserved,
-- calls, back, left, charged.
INSERT INTO reservations (pool_id, id, nonce, made, at, day, units, reserved, calls, generation, method, job, region, class, reason, key, shared,
	settled, back, left_, charged)
SELECT pool_id, ?2, ?3, ?4, at, day, ?5, ?6, ?7, generation, method, job, region, class, reason, key, shared, 1, ?8, ?9, ?10
FROM reservations WHERE number = ?1;

-- spend adds up charges by pool, day, hour and labels. Args: first number, last number, made
-- until, first day, last day. In SQLite the remainder of a negative number is negative. A
-- slot, which has no day, is no spend.
SELECT pool_id, day, at - (at % 3600000000 + 3600000000) % 3600000000 AS hour, method, job, region, class, reason,
	total(units), sum(calls), min(number)
FROM reservations
WHERE number BETWEEN ?1 AND ?2 AND made <= ?3 AND day BETWEEN ?4 AND ?5
GROUP BY pool_id, day, hour, method, job, region, class, reason;

-- spend_pools returns the pools of an account. Args: upstream, account.
SELECT id, pool, zone FROM births WHERE upstream = ?1 AND account = ?2;

-- spend_old returns the number of the last charge that was made until a time. Args: after
-- this number, time.
SELECT number FROM reservations WHERE number > ?1 AND made <= ?2 ORDER BY number DESC LIMIT 1;

-- spend_young returns the numbers of charges that were made after a time. Args: first number,
-- last number, time, how many at most.
SELECT number FROM reservations WHERE number BETWEEN ?1 AND ?2 AND made > ?3 ORDER BY number LIMIT ?4;

-- spend_last returns the last charge up to a number. Args: number.
SELECT number, made FROM reservations WHERE number <= ?1 ORDER BY number DESC LIMIT 1;

-- prune_look returns the next charges in the order in which they were written. Args:
-- after this number, how many at most.
SELECT number, at FROM reservations WHERE number > ?1 ORDER BY number LIMIT ?2;

-- prune_rows deletes old charges. Args: from number, to number, made before, at before.
DELETE FROM reservations WHERE number BETWEEN ?1 AND ?2 AND made < ?3 AND at < ?4;

-- prune_lived returns when the last charge before a time was made. Args: time.
SELECT made FROM reservations WHERE made <= ?1 ORDER BY number DESC LIMIT 1;
