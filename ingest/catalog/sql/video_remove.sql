-- Deletes videos, and by references all there is of them. Args: their rows, as JSON.
DELETE FROM videos WHERE id IN (SELECT value FROM json_each(?1))
