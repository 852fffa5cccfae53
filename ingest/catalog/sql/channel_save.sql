-- Saves a channel. Args: its columns as they are listed.
INSERT INTO channels (channel_id, fetched_at, published_at, title, handle, country, uploads, description)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (channel_id) DO UPDATE SET fetched_at = excluded.fetched_at, published_at = excluded.published_at,
	title = excluded.title, handle = excluded.handle, country = excluded.country, uploads = excluded.uploads,
	description = excluded.description
