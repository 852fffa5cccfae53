-- member_find returns the page of a key. The empty key has the page that new keys share
-- when the family is full. Args: upstream, account, pool ('' is a family), key.
SELECT id, page, listed, key, reason FROM members WHERE upstream = ?1 AND account = ?2 AND pool = ?3 AND key = ?4;

-- member_oldest returns the member of a family that was charged longest ago, without
-- members that the price book lists. Args: upstream, account, pool.
SELECT id, page, listed, key, reason FROM members WHERE upstream = ?1 AND account = ?2 AND pool = ?3 AND key <> '' AND listed = 0
ORDER BY written, id LIMIT 1;

-- member_ahead returns the member of a family that was charged at the latest instant
-- after now. Such a member exists if the clock was set back. Args: upstream, account,
-- pool, now.
SELECT id, page, listed, key, reason FROM members WHERE upstream = ?1 AND account = ?2 AND pool = ?3 AND key <> '' AND written > ?4
ORDER BY written DESC LIMIT 1;

-- member_add adds the page of a key. Args: windows (NULL are not known), used, written, page, listed, reason,
-- upstream, account, pool, key.
INSERT INTO members (windows, used, written, page, listed, reason, upstream, account, pool, key)
VALUES (coalesce(?1, ''), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- member_save saves the page of a key. Args: windows (NULL keeps them), used, written,
-- page, listed, reason, id.
UPDATE members SET windows = coalesce(?1, windows), used = ?2, written = ?3, page = ?4, listed = ?5, reason = ?6 WHERE id = ?7;

-- member_drop deletes a member. Args: id.
DELETE FROM members WHERE id = ?1;

-- member_keys returns the keys of a pool that were charged last, the latest first. Args:
-- upstream, account, pool, how many at most.
SELECT key FROM members WHERE upstream = ?1 AND account = ?2 AND pool = ?3 AND key <> '' ORDER BY written DESC, id DESC LIMIT ?4;

-- member_count returns the number of keys of a pool. Args: upstream, account, pool.
SELECT count(*) FROM members WHERE upstream = ?1 AND account = ?2 AND pool = ?3 AND key <> '';

-- family_find returns a family. Args: upstream, account, pool.
SELECT members, called, leapt, proven FROM families WHERE upstream = ?1 AND account = ?2 AND pool = ?3;

-- family_save saves a family. Args: upstream, account, pool, number of members without
-- those that the price book lists, called, leapt, proven.
INSERT INTO families (upstream, account, pool, members, called, leapt, proven) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE SET members = ?4, called = ?5, leapt = ?6, proven = ?7;
