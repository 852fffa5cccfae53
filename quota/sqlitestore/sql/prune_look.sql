-- Looks at the next charges in the order in which they were written. Args: after
-- this number, how many at most.
SELECT number, at FROM reservations WHERE number > ?1 ORDER BY number LIMIT ?2
