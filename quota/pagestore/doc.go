// Package pagestore is a whole [quota.Store] over a small [Backend]: reserve,
// settle, record, block, receipts, families and their corner cases are written once,
// here, for every store that keeps its pages in Go.
//
// A backend finds pages and writes them down. It knows nothing of limits. For each
// call the store begins a transaction, asks for the pages and the receipt that the
// call needs, decides, and puts back what has changed:
//
//	Begin, Load, Entry ..., Put ..., Charge, End
//
// Everything that can be refused is found out before the first page changes. So an
// error of reading fails one request, and an error of writing undoes the transaction.
//
// A store whose commits are slow sets [Options.Combine]. Callers that come while a
// transaction is under way then go into the next one together. Each is decided in
// turn, gets its own answer, and is told only after the commit.
package pagestore
