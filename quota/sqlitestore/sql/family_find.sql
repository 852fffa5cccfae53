-- Finds what is known of a family. Args: upstream, account.
SELECT members, called, leapt, proven FROM families WHERE upstream = ?1 AND account = ?2
