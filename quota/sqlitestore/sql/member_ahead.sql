-- Finds the members of a family that were charged after now: the clock has stepped
-- back. Args: upstream, account, now, how many at most.
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key <> '' AND written > ?3
ORDER BY written DESC LIMIT ?4
