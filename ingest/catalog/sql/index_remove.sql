-- Takes the words of videos out of the index, while they still have them. Args: their
-- rows, as JSON.
INSERT INTO search (search, rowid, title, description, channel, tags)
SELECT 'delete', id, title, description, channel, tags FROM video_words WHERE id IN (SELECT value FROM json_each(?1))
