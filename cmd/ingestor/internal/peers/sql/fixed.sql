-- A request of a fixed window: ?1 name, ?2 the number of the window that is now, ?3 limit.
-- No row changes if it is refused.
INSERT INTO fixed (name, window, count) VALUES (?1, ?2, 1)
ON CONFLICT (name) DO UPDATE SET window = ?2, count = iif(window = ?2, count + 1, 1)
WHERE window <> ?2 OR count < ?3
