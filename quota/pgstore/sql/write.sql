-- births_save remembers pools, for longer or with new pages. Args: upstreams, accounts, pools,
-- zones, born, counts until.
INSERT INTO headroom_ledger.births AS b (upstream, account, pool, zone, born, counts_until)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
ON CONFLICT (upstream, account, pool) DO UPDATE SET zone = excluded.zone, born = excluded.born, counts_until = excluded.counts_until;

-- zones_save remembers keyed pools, which have no page of their own. Args: upstreams, accounts,
-- pools, zones.
INSERT INTO headroom_ledger.births AS b (upstream, account, pool, zone, born, counts_until)
SELECT n.*, 0, 0 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS n
ON CONFLICT (upstream, account, pool) DO UPDATE SET zone = excluded.zone;

-- pools_save saves the pages of pools. Args: upstreams, accounts, pools, born, revisions, written,
-- blocked until, reasons, windows ('' keeps them), used, pages.
INSERT INTO headroom_ledger.pools AS p (upstream, account, pool, born, revision, written, blocked_until, reason, windows, used, page)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::bytea[])
ON CONFLICT (upstream, account, pool) DO UPDATE SET born = excluded.born, revision = excluded.revision, written = excluded.written,
	blocked_until = excluded.blocked_until, reason = excluded.reason, used = excluded.used, page = excluded.page,
	windows = CASE excluded.windows WHEN '' THEN p.windows ELSE excluded.windows END;

-- charges_add adds charges in their order. Args: upstreams, accounts, pools, ids ('' leaves no
-- receipt), nonces, made, at, days, units, reserved, generations, methods, jobs, regions,
-- classes, reasons, keys, shared.
INSERT INTO headroom_ledger.reservations (pool_id, id, nonce, made, at, day, units, reserved, calls, generation,
	method, job, region, class, reason, key, shared)
SELECT b.id, nullif(n.id, ''), n.nonce, n.made, n.at, n.day, n.units, n.reserved, 1, n.generation,
	n.method, n.job, n.region, n.class, n.reason, n.key, n.shared
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[], $10::bigint[],
	$11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::boolean[])
	WITH ORDINALITY AS n (upstream, account, pool, id, nonce, made, at, day, units, reserved, generation,
		method, job, region, class, reason, key, shared, place)
CROSS JOIN LATERAL (
	SELECT * FROM headroom_ledger.births AS b WHERE b.upstream = n.upstream AND b.account = n.account AND b.pool = n.pool OFFSET 0
) AS b
ORDER BY n.place;

-- charge_add is pools_save and charges_add for one charge of a pool that has a page, which most
-- calls are. Without the page it changes nothing. Args: those of pools_save, each for one pool;
-- the number of the pool's birth; those of charges_add from the id to the reason.
WITH page AS (
	UPDATE headroom_ledger.pools SET born = $4::bigint, revision = $5::bigint, written = $6::bigint,
		blocked_until = $7::bigint, reason = $8::text, windows = CASE $9::text WHEN '' THEN windows ELSE $9::text END,
		used = $10::text, page = $11::bytea
	WHERE upstream = $1::text AND account = $2::text AND pool = $3::text
	RETURNING 1
)
INSERT INTO headroom_ledger.reservations (pool_id, id, nonce, made, at, day, units, reserved, calls, generation,
	method, job, region, class, reason, key, shared)
SELECT $12::bigint, nullif($13::text, ''), $14::bytea, $15::bigint, $16::bigint, $17::text, $18::bigint, $19::bigint, 1, $20::bigint,
	$21::text, $22::text, $23::text, $24::text, $25::text, '', false
FROM page;

-- settle settles a charge. Args: number, units, calls, back, left, charged.
UPDATE headroom_ledger.reservations
SET units = $2::bigint, calls = $3::bigint, settled = true, back = $4::bigint, left_ = $5::bigint, charged = $6::bigint
WHERE number = $1::bigint;

-- settle_parts adds parts of charges that were settled by themselves. The units of a part are
-- those by which it changes the charge. Args: numbers of the charges, ids, nonces, made, units,
-- reserved, calls, back, left, charged.
INSERT INTO headroom_ledger.reservations (pool_id, id, nonce, made, at, day, units, reserved, calls, generation,
	method, job, region, class, reason, key, shared, settled, back, left_, charged)
SELECT r.pool_id, n.id, n.nonce, n.made, r.at, r.day, n.units, n.reserved, n.calls, r.generation,
	r.method, r.job, r.region, r.class, r.reason, r.key, r.shared, true, n.back, n.left_, n.charged
FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
	WITH ORDINALITY AS n (number, id, nonce, made, units, reserved, calls, back, left_, charged, place)
CROSS JOIN LATERAL (SELECT * FROM headroom_ledger.reservations AS r WHERE r.number = n.number OFFSET 0) AS r
ORDER BY n.place;

-- keep moves a charge of a receipt with slots along. Args: number, made, at, units, generation.
UPDATE headroom_ledger.reservations
SET made = $2::bigint, at = $3::bigint, units = $4::bigint, generation = $5::bigint
WHERE number = $1::bigint;

-- families_save saves families. Args: upstreams, accounts, pools, numbers of members, called,
-- leapt, proven.
INSERT INTO headroom_ledger.families (upstream, account, pool, members, called, leapt, proven)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
ON CONFLICT (upstream, account, pool) DO UPDATE SET members = excluded.members, called = excluded.called,
	leapt = excluded.leapt, proven = excluded.proven;

-- members_save saves the pages of keys. Args: upstreams, accounts, pools, keys, windows ('' keeps
-- them), used, written, pages, listed, reasons.
INSERT INTO headroom_ledger.members AS m (upstream, account, pool, key, windows, used, written, page, listed, reason)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bytea[], $9::boolean[], $10::text[])
ON CONFLICT (upstream, account, pool, key) DO UPDATE SET used = excluded.used, written = excluded.written, page = excluded.page,
	listed = excluded.listed, reason = excluded.reason,
	windows = CASE excluded.windows WHEN '' THEN m.windows ELSE excluded.windows END;

-- drop deletes members. Args: upstreams, accounts, pools, keys.
DELETE FROM headroom_ledger.members AS m
USING unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS n (upstream, account, pool, key)
WHERE m.upstream = n.upstream AND m.account = n.account AND m.pool = n.pool AND m.key = n.key;

-- prune deletes up to so many charges that are too old, and returns how many. It deletes
-- none unless a charge is at least an hour old and not too old: otherwise the clock may have
-- jumped ahead. It deletes none if the last charge is too old: the clock was set back meanwhile.
-- Args: made and counted before, an hour ago, how many.
WITH gone AS (
	DELETE FROM headroom_ledger.reservations
	WHERE number = ANY (ARRAY(
		SELECT number FROM headroom_ledger.reservations
		WHERE made < $1::bigint AND at < $1::bigint
			AND EXISTS (SELECT 1 FROM headroom_ledger.reservations WHERE made BETWEEN $1::bigint AND $2::bigint)
			AND (SELECT made FROM headroom_ledger.reservations ORDER BY number DESC LIMIT 1) >= $1::bigint
		LIMIT $3::bigint FOR UPDATE SKIP LOCKED))
	RETURNING 1
)
SELECT count(*) FROM gone;

-- lease_take gives a lease to a holder if nobody has it, and returns who has it now, or no row
-- if another process took it meanwhile. Args: name, holder, life in microseconds.
WITH taken AS (
	INSERT INTO headroom_ledger.leases AS l (name, holder, token, until)
	VALUES ($1::text, $2::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, clock_timestamp() + $3::bigint * interval '1 microsecond')
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = greatest(excluded.token, l.token + 1), until = clock_timestamp() + $3::bigint * interval '1 microsecond'
		-- Later than any lease can last: the clock had been far ahead. excluded.until is older than the wait for another's lock.
		WHERE l.until <= clock_timestamp() OR l.until > clock_timestamp() + $3::bigint * interval '1 microsecond'
	RETURNING token, holder, until
)
SELECT true, token, holder, until FROM taken
UNION ALL
SELECT false, l.token, l.holder, l.until FROM headroom_ledger.leases AS l
WHERE l.name = $1::text AND l.until > clock_timestamp() AND NOT EXISTS (SELECT 1 FROM taken);

-- lease_keep prolongs a lease from now on, or gives it back if life is 0. It changes no row
-- if the lease is not held under this token. Args: name, token, life in microseconds.
UPDATE headroom_ledger.leases SET until = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE name = $1::text AND token = $2::bigint AND until > clock_timestamp();
