-- Notes where the ledger is. Args: path.
UPDATE identity SET path = ?1
