-- Saves what is known of a family. Args: upstream, account, members without those that
-- the price book lists, called, leapt, proven.
INSERT INTO families (upstream, account, members, called, leapt, proven) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET members = ?3, called = ?4, leapt = ?5, proven = ?6
