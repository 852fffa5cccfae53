-- Finds the members of a family that were charged longest ago. Args: upstream,
-- account, how many at most.
SELECT id, page, listed FROM members WHERE upstream = ?1 AND account = ?2 AND key <> '' ORDER BY written, id LIMIT ?3
