-- Notes the ledger that runs are charged to. Args: address, since when.
INSERT INTO ledger (one, address, since) VALUES (1, ?1, ?2) ON CONFLICT (one) DO UPDATE SET address = excluded.address, since = excluded.since
