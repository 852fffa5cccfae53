-- Deletes old charges. Args: from number, to number, made before, at before.
DELETE FROM reservations WHERE number BETWEEN ?1 AND ?2 AND made < ?3 AND at < ?4
