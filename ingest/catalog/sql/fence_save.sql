-- Remembers a token. Args: name, token.
INSERT INTO fences (name, token) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET token = excluded.token
