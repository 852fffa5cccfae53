-- words_find returns the version of the words in the index.
SELECT words FROM about;

-- words_save saves the version of the words in the index. Args: version.
UPDATE about SET words = ?1;

-- index_add adds the words of videos to the index. Args: ids.
INSERT INTO search (rowid, title, description, channel, tags)
SELECT id, title, description, channel, tags FROM video_words
WHERE id IN (SELECT id FROM videos WHERE video_id IN (SELECT value FROM json_each(?1)));

-- index_remove removes the words of videos from the index, while the videos still have
-- them. Args: ids.
INSERT INTO search (search, rowid, title, description, channel, tags)
SELECT 'delete', id, title, description, channel, tags FROM video_words
WHERE id IN (SELECT id FROM videos WHERE video_id IN (SELECT value FROM json_each(?1)));

-- index_merge merges segments of the index. Args: the number of pages to write at most;
-- a negative number starts to merge all segments into one.
INSERT INTO search (search, rank) VALUES ('merge', ?1);

-- index_rebuild makes the index again.
INSERT INTO search (search) VALUES ('rebuild');

-- index_check fails if the index does not match the videos.
INSERT INTO search (search, rank) VALUES ('integrity-check', 1);
