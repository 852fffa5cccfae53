-- Adds a charge. Args: pool id, id, nonce, made, at, day, units, reserved,
-- generation, method, job, region, class, reason.
INSERT INTO reservations (pool_id, id, nonce, made, at, day, units, reserved, calls, generation, method, job, region, class, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, ?12, ?13, ?14)
