-- A request of GCRA: ?1 name, ?2 now, ?3 how far apart requests are, ?4 how much of that a burst may take.
-- No row changes if it is refused.
INSERT INTO gcra (name, tat) VALUES (?1, ?2 + ?3)
ON CONFLICT (name) DO UPDATE SET tat = max(tat, ?2) + ?3
WHERE max(tat, ?2) + ?3 - ?2 <= ?4
