-- note_find returns a note, its version and the time; if there is none, an empty one of version 0. Args: name.
SELECT coalesce(max(note), ''), coalesce(max(version), 0), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM headroom_ledger.notes WHERE name = $1::text;

-- note_swap writes a note if its version is the given one, and returns it; else it returns nothing.
-- Args: name, version, note.
INSERT INTO headroom_ledger.notes AS old (name, note, version)
SELECT $1::text, $3::text, 1 WHERE $2::bigint = 0 OR EXISTS (SELECT FROM headroom_ledger.notes WHERE name = $1::text)
ON CONFLICT (name) DO UPDATE SET note = excluded.note, version = old.version + 1 WHERE old.version = $2::bigint
RETURNING note, version, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
