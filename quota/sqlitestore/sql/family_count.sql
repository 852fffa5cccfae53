-- Counts the members of a family. Args: upstream, account.
SELECT members FROM families WHERE upstream = ?1 AND account = ?2
