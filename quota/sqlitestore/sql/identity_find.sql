-- Finds which ledger this is, and where it was when somebody last asked for copies.
SELECT id, path FROM identity
