-- Remembers a pool. Args: upstream, account, pool, zone, born, counts until.
INSERT INTO births (upstream, account, pool, zone, born, counts_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
