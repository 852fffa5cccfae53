-- Finds the ledger that runs are charged to.
SELECT address, since FROM ledger
