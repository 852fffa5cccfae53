// Package pagestore is a whole [quota.Store] over a small [Backend]: reserve,
// settle, record, block, receipts, families and their corner cases are written once,
// here, for every store that keeps its pages in Go.
//
// A backend reads and writes pages. It knows nothing about limits. For each call the store
// begins a transaction, reads the pages and the receipt that the call needs, decides, and
// writes what has changed:
//
//	Begin, Load, Entry ..., Put ..., Charge, End
//
// It finds every reason to refuse before the first page changes. So a read error fails one
// request, and a write error undoes the transaction.
//
// A store whose commits are slow sets [Options.Combine]. Callers that arrive during a
// transaction then share the next one. Each is decided in turn, and gets its own answer
// after the commit.
package pagestore
