-- Saves a page that is there. Args: revision, written, blocked until, reason,
-- windows (NULL: as they were), used, stamp, page, id.
UPDATE pools SET revision = ?1, written = ?2, blocked_until = ?3, reason = ?4, windows = coalesce(?5, windows), used = ?6, stamp = ?7, page = ?8
WHERE id = ?9
