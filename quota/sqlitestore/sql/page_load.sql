-- Loads the page of a pool that was found before. Args: id, stamp. Returns no page
-- if its stamp is this one: the caller has it.
SELECT stamp, reason, CASE WHEN stamp <> ?2 THEN page END FROM pools WHERE id = ?1
