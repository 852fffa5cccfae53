// Package pgcatalog is the home of a catalog for fleets: the tables of package catalog in
// PostgreSQL, shared by many machines. A [catalog.Engine] does the work, as in a file, and gives
// the same answers. Here is what differs: transactions, the index of words, and the ledgers that
// a fleet is charged to.
//
// # Transactions
//
// A page is one transaction, as in a file. It takes two round trips: one begins it, locks what
// the page changes and reads what has to be known of it, and one writes and commits. Every
// page locks rows in the same order. If two transactions still exclude each other, one is
// repeated. A transaction that lies idle for 10 s ends, because its process hangs.
//
// [Catalog.In] does the same within a transaction of the caller. [Catalog.Guarded] adds to the
// transactions that write: it checks a fence that the catalog knows nothing of, and writes more
// rows of its own.
//
// # Differences from a file
//
// Texts cannot hold the character NUL, so it becomes U+FFFD. The text of deleted rows leaves
// the tables with PostgreSQL's VACUUM, which Expire runs. A search finds the same videos and
// may sort them differently: see index.go. Both homes rank the [catalog.MaxRanked] videos that
// were added last, of those that have the words.
//
// A server keeps no answers of this catalog, because nothing tells it cheaply whether the
// catalog changed. The position of the log and the snapshot change with each transaction of
// the whole server, and River commits several a second. A row that counts commits would make
// the writers of a fleet wait for each other. A notification may arrive later than a request.
package pgcatalog
