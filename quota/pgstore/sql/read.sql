-- lock locks an account or a family until the end of the transaction. It is a statement of
-- its own: the next one sees what was committed before the lock was free. The server ends
-- the wait and the transaction of a client that is gone. Args: lock timeout, idle timeout,
-- lock.
SELECT set_config('lock_timeout', $1::text, true), set_config('idle_in_transaction_session_timeout', $2::text, true),
	pg_advisory_xact_lock($3::bigint)::text;

-- lock_more locks another one. Transactions lock in ascending order. Args: lock.
SELECT pg_advisory_xact_lock($1::bigint)::text;

-- pages returns the clock, and the births and pages of pools. Any of them may be missing;
-- without pools there is one row with the clock. OFFSET 0 makes the server look each row up by
-- its key, here and below: a plan that it made while the tables were small would read all of
-- them. Args: upstreams, accounts, pools.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	n.pool IS NOT NULL, coalesce(n.upstream, ''), coalesce(n.account, ''), coalesce(n.pool, ''),
	coalesce(b.id, 0), coalesce(b.born, 0), coalesce(b.counts_until, 0), coalesce(b.zone, ''), coalesce(p.reason, ''), p.page
FROM (SELECT 1) AS one
LEFT JOIN unnest($1::text[], $2::text[], $3::text[]) AS n (upstream, account, pool) ON true
LEFT JOIN LATERAL (
	SELECT * FROM headroom_ledger.births AS b WHERE b.upstream = n.upstream AND b.account = n.account AND b.pool = n.pool OFFSET 0
) AS b ON true
LEFT JOIN LATERAL (
	SELECT * FROM headroom_ledger.pools AS p WHERE p.upstream = n.upstream AND p.account = n.account AND p.pool = n.pool OFFSET 0
) AS p ON true;

-- page is pages for one pool, which is all that most calls need. It takes less time. Args: upstream, account, pool.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	true, $1::text, $2::text, $3::text,
	coalesce(b.id, 0), coalesce(b.born, 0), coalesce(b.counts_until, 0), coalesce(b.zone, ''), coalesce(p.reason, ''), p.page
FROM (SELECT 1) AS one
LEFT JOIN headroom_ledger.births AS b ON b.upstream = $1::text AND b.account = $2::text AND b.pool = $3::text
LEFT JOIN headroom_ledger.pools AS p ON p.upstream = $1::text AND p.account = $2::text AND p.pool = $3::text;

-- receipts returns the charges of ids, the latest first. Args: upstreams, accounts, ids.
SELECT n.upstream, n.account, n.id, r.number, b.pool, r.nonce, r.made, r.at, r.reserved, r.generation, r.settled,
	r.back, r.left_, r.charged, r.units, r.key, r.shared, r.day = ''
FROM unnest($1::text[], $2::text[], $3::text[]) AS n (upstream, account, id)
CROSS JOIN LATERAL (SELECT * FROM headroom_ledger.reservations AS r WHERE r.id = n.id OFFSET 0) AS r
CROSS JOIN LATERAL (SELECT * FROM headroom_ledger.births AS b WHERE b.id = r.pool_id OFFSET 0) AS b
WHERE b.upstream = n.upstream AND b.account = n.account
ORDER BY r.number DESC;

-- receipt_pages returns the births and pages of the pools that ids were charged to, in the
-- columns of pages. Args: upstreams, accounts, ids.
SELECT 0::bigint, true, b.upstream, b.account, b.pool,
	b.id, b.born, b.counts_until, b.zone, coalesce(p.reason, ''), p.page
FROM (
	SELECT DISTINCT n.upstream, n.account, r.pool_id
	FROM unnest($1::text[], $2::text[], $3::text[]) AS n (upstream, account, id)
	CROSS JOIN LATERAL (SELECT * FROM headroom_ledger.reservations AS r WHERE r.id = n.id AND r.key = '' OFFSET 0) AS r
) AS n
CROSS JOIN LATERAL (SELECT * FROM headroom_ledger.births AS b WHERE b.id = n.pool_id OFFSET 0) AS b
LEFT JOIN LATERAL (
	SELECT * FROM headroom_ledger.pools AS p WHERE p.upstream = b.upstream AND p.account = b.account AND p.pool = b.pool OFFSET 0
) AS p ON true
WHERE b.upstream = n.upstream AND b.account = n.account;

-- families returns families and keyed pools, and the zone of the pool's days, if it is
-- known. Any of them may be missing. Args: upstreams, accounts, pools.
SELECT n.upstream, n.account, n.pool, coalesce(f.members, 0), coalesce(f.called, 0), coalesce(f.leapt, 0), coalesce(f.proven, 0),
	b.id IS NOT NULL, coalesce(b.zone, '')
FROM unnest($1::text[], $2::text[], $3::text[]) AS n (upstream, account, pool)
LEFT JOIN LATERAL (
	SELECT * FROM headroom_ledger.families AS f WHERE f.upstream = n.upstream AND f.account = n.account AND f.pool = n.pool OFFSET 0
) AS f ON true
LEFT JOIN LATERAL (
	SELECT * FROM headroom_ledger.births AS b WHERE b.upstream = n.upstream AND b.account = n.account AND b.pool = n.pool OFFSET 0
) AS b ON true;

-- members returns the pages of keys. Args: upstreams, accounts, pools, keys.
SELECT m.upstream, m.account, m.pool, m.key, m.listed, m.reason, m.page
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS n (upstream, account, pool, key)
CROSS JOIN LATERAL (
	SELECT * FROM headroom_ledger.members AS m
	WHERE m.upstream = n.upstream AND m.account = n.account AND m.pool = n.pool AND m.key = n.key OFFSET 0
) AS m;

-- oldest returns the member of each family that was charged longest ago, without members
-- that the price book lists, in the columns of members. Args: upstreams, accounts, pools.
SELECT m.upstream, m.account, m.pool, m.key, m.listed, m.reason, m.page
FROM unnest($1::text[], $2::text[], $3::text[]) AS n (upstream, account, pool)
CROSS JOIN LATERAL (
	SELECT * FROM headroom_ledger.members AS o
	WHERE o.upstream = n.upstream AND o.account = n.account AND o.pool = n.pool AND o.key <> '' AND NOT o.listed
	ORDER BY o.written, o.key LIMIT 1
) AS m;

-- ahead returns the member of a family that was charged at the latest instant after now, in
-- the columns of members. Such a member exists if the clock was set back. Args: upstream,
-- account, pool, now.
SELECT m.upstream, m.account, m.pool, m.key, m.listed, m.reason, m.page
FROM headroom_ledger.members AS m
WHERE m.upstream = $1::text AND m.account = $2::text AND m.pool = $3::text AND m.key <> '' AND m.written > $4::bigint
ORDER BY m.written DESC LIMIT 1;

-- keys returns the keys of a pool that were charged last, the latest first. Args: upstream,
-- account, pool, how many at most.
SELECT key FROM headroom_ledger.members
WHERE upstream = $1::text AND account = $2::text AND pool = $3::text AND key <> ''
ORDER BY written DESC, key LIMIT $4::bigint;

-- key_count returns the number of keys of a pool. Args: upstream, account, pool.
SELECT count(*) FROM headroom_ledger.members WHERE upstream = $1::text AND account = $2::text AND pool = $3::text AND key <> '';

-- spend returns the spend of an account's pools, in the order in which each set of labels
-- was first used. Args: upstream, account, first day, last day, whether to keep the hours
-- apart.
SELECT b.pool, b.zone, r.day, r.method, r.job, r.region, r.class, r.reason,
	least(sum(r.units), 9007199254740991)::bigint, sum(r.calls)::bigint,
	CASE WHEN $5::boolean THEN r.at - (r.at % 3600000000 + 3600000000) % 3600000000 ELSE 0 END AS hour
FROM headroom_ledger.reservations AS r JOIN headroom_ledger.births AS b ON b.id = r.pool_id
WHERE b.upstream = $1::text AND b.account = $2::text AND r.day BETWEEN $3::text AND $4::text
GROUP BY b.pool, b.zone, r.day, hour, r.method, r.job, r.region, r.class, r.reason
ORDER BY min(r.number);

-- identity returns the ledger's identity.
SELECT id FROM headroom_ledger.identity;
