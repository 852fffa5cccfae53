-- Finds the members of a family that were charged longest ago, without those that the
-- price book lists. Args: upstream, account, how many at most.
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key <> '' AND listed = 0
ORDER BY written, id LIMIT ?3
