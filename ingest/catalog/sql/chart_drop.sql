-- Deletes a chart. Args: region, category, whether the complete one.
DELETE FROM charts WHERE region = ?1 AND category = ?2 AND complete = ?3
