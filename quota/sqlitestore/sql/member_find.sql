-- Finds the page of a key. Args: upstream, account, key ('' is the page that is
-- shared when the family is full).
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key = ?3
