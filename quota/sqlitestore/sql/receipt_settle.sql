-- Settles a charge. Args: number, units, calls, back, left, charged.
UPDATE reservations SET units = ?2, calls = ?3, settled = 1, back = ?4, left_ = ?5, charged = ?6 WHERE number = ?1
