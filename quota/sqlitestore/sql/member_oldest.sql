-- Finds the member of a family that was charged longest ago, without those that the
-- price book lists. Args: upstream, account.
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key <> '' AND listed = 0
ORDER BY written, id LIMIT 1
