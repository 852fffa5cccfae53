-- Deletes channels. Args: their ids, as JSON.
DELETE FROM channels WHERE channel_id IN (SELECT value FROM json_each(?1))
