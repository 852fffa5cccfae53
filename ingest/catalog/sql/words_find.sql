-- Finds what the index of words was made with.
SELECT words FROM about
