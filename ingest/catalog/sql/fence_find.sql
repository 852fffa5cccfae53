-- Finds the highest token that was shown. Args: name.
SELECT token FROM fences WHERE name = ?1
