-- Saves a page that is there. Args: id, revision, written, blocked until, reason,
-- windows (NULL: as they were), used, stamp, page.
UPDATE pools SET revision = ?2, written = ?3, blocked_until = ?4, reason = ?5, windows = coalesce(?6, windows), used = ?7, stamp = ?8, page = ?9
WHERE id = ?1
