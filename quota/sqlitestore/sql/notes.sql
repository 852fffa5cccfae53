-- note_find returns a note and its version; if there is none, an empty one of version 0. Args: name.
SELECT coalesce(max(note), ''), coalesce(max(version), 0) FROM notes WHERE name = ?1;

-- note_put writes a note. Args: name, note, version.
INSERT INTO notes (name, note, version) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET note = excluded.note, version = excluded.version;
