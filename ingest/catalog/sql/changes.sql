-- Counts what the connection has changed.
SELECT total_changes()
