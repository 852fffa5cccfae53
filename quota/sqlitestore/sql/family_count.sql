-- Counts the members of a family, without those that are listed. Args: upstream, account.
SELECT members FROM families WHERE upstream = ?1 AND account = ?2
