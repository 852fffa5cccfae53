-- Finds when the last charge was made of those before a time. Args: before.
SELECT made FROM reservations WHERE made <= ?1 ORDER BY number DESC LIMIT 1
