-- Finds the member of a family that was charged at the latest instant after now: the
-- clock has stepped back. Args: upstream, account, now.
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key <> '' AND written > ?3
ORDER BY written DESC LIMIT 1
