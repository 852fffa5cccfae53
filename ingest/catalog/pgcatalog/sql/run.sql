-- begin limits how long a transaction may lie idle, and returns the server's time. Args: the
-- limit.
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- ledgers_find returns the ledgers that runs are charged to.
SELECT upstream, account, identity, address, since FROM headroom_catalog.ledgers ORDER BY upstream, account;

-- ledgers_lock returns the same, and keeps others from changing them until the transaction ends.
SELECT upstream, account, identity, address, since FROM headroom_catalog.ledgers ORDER BY upstream, account FOR UPDATE;

-- ledgers_save saves a ledger. A known ledger was locked before, so it is unchanged since. A
-- new one can be added by one process only. Args: upstream, account, identity, address, since when, new.
WITH added AS (
	INSERT INTO headroom_catalog.ledgers (upstream, account, identity, address, since)
	SELECT $1::text, $2::text, $3::text, $4::text, $5::bigint WHERE $6::boolean
)
UPDATE headroom_catalog.ledgers SET identity = $3::text, address = $4::text, since = $5::bigint
WHERE upstream = $1::text AND account = $2::text AND NOT $6::boolean;
