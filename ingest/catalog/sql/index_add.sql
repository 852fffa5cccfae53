-- Puts the words of videos into the index. Args: their rows, as JSON.
INSERT INTO search (rowid, title, description, channel, tags)
SELECT id, title, description, channel, tags FROM video_words WHERE id IN (SELECT value FROM json_each(?1))
