-- Forgets a member. Args: id.
DELETE FROM members WHERE id = ?1
