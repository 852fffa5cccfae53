-- member_find returns the page of a key. The empty key has the page that new keys share
-- when the family is full. Args: upstream, account, key.
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key = ?3;

-- member_oldest returns the member of a family that was charged longest ago, without
-- members that the price book lists. Args: upstream, account.
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key <> '' AND listed = 0
ORDER BY written, id LIMIT 1;

-- member_ahead returns the member of a family that was charged at the latest instant
-- after now. Such a member exists if the clock was set back. Args: upstream, account, now.
SELECT id, page, listed, key FROM members WHERE upstream = ?1 AND account = ?2 AND key <> '' AND written > ?3
ORDER BY written DESC LIMIT 1;

-- member_add adds the page of a key. Args: windows, used, written, page, listed,
-- upstream, account, key.
INSERT INTO members (windows, used, written, page, listed, upstream, account, key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- member_save saves the page of a key. Args: windows (NULL keeps them), used, written,
-- page, listed, id.
UPDATE members SET windows = coalesce(?1, windows), used = ?2, written = ?3, page = ?4, listed = ?5 WHERE id = ?6;

-- member_drop deletes a member. Args: id.
DELETE FROM members WHERE id = ?1;

-- family_find returns a family. Args: upstream, account.
SELECT members, called, leapt, proven FROM families WHERE upstream = ?1 AND account = ?2;

-- family_save saves a family. Args: upstream, account, number of members without those
-- that the price book lists, called, leapt, proven.
INSERT INTO families (upstream, account, members, called, leapt, proven) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET members = ?3, called = ?4, leapt = ?5, proven = ?6;
