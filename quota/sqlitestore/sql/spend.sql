-- Sums up what was spent of an account's pools, in the order in which each set of
-- labels was first seen. Args: upstream, account, first day, last day.
SELECT b.pool, b.zone, r.day, r.method, r.job, r.region, r.class, r.reason, sum(r.units), sum(r.calls)
FROM reservations AS r JOIN births AS b ON b.id = r.pool_id
WHERE b.upstream = ?1 AND b.account = ?2 AND r.day BETWEEN ?3 AND ?4
GROUP BY r.pool_id, r.day, r.method, r.job, r.region, r.class, r.reason
ORDER BY min(r.number)
