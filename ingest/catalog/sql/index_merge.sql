-- Merges segments of the index. Args: how many pages are written at most; below 0 all
-- segments are to become one.
INSERT INTO search (search, rank) VALUES ('merge', ?1)
