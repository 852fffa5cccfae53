-- Corrects the count of a family's members. Args: upstream, account, by how many.
INSERT INTO families (upstream, account, members) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET members = members + ?3
