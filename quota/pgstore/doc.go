// Package pgstore keeps a ledger in PostgreSQL, for the processes of many machines. It is
// made for 14 and later, and tested with 15.
//
// # Guarantees
//
// Every operation is one transaction. It locks the account (or the family) with
// pg_advisory_xact_lock, reads the server's clock and the rows, decides in this process, and
// commits. So the promises of [quota.Store] hold for all processes, and a grant is returned
// only after its commit. A client or a server that is killed loses no grant. With
// synchronous_commit off or fsync off, a crash of the server or its machine loses the last
// grants; [Store.Check] warns about both. The same holds for a failover to a standby that
// replicates asynchronously: set synchronous_standby_names to prevent it.
//
// A pool whose row is missing while its spend may still count is not an empty pool: its calls
// get [quota.ForgottenError] until [quota.Request.Restore] puts the spend back. An empty
// database or an older copy in its place is noticed with [Options.Births], a memory outside
// the database such as the journal.
//
// # Callers share transactions
//
// Callers of one process that ask for the same account while a transaction is under way go
// into the next one together. Each is decided in turn and gets its own verdict; bad input
// fails its own call only. A transaction is two round trips. It has its own deadline. A
// caller that leaves gets its context's error, and its charge stands under its id: the same
// id later finds it. Different accounts do not wait for each other, and need a connection
// each: the URL's pool_max_conns (4, or the number of CPUs) bounds them.
//
// # Rights
//
// The first process makes the schema headroom_ledger. Its user needs CREATE on the database:
//
//	CREATE ROLE ingestor LOGIN;
//	CREATE DATABASE headroom OWNER ingestor;
//
// To run with fewer rights, open the ledger once as the owner, such as with ingestor check
// --ledger, after each upgrade too. Then the user of the daily work needs only:
//
//	GRANT USAGE ON SCHEMA headroom_ledger TO ingestor;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA headroom_ledger TO ingestor;
//
// [Store.Check] names each right that is missing, with the statement to type.
//
// # Versions
//
// The table schema_version names the schema's version and the oldest program that works with
// it. One process at a time makes a new version, and programs of the version before go on
// working beside it. A program that is too old says so.
//
// # PgBouncer
//
// The store works behind PgBouncer in transaction mode: it uses no session locks, no LISTEN
// and no settings of a session. Prepared statements must not outlive a transaction there, so
// add default_query_exec_mode=exec to the URL. PgBouncer 1.21 and later follows prepared
// statements (max_prepared_statements), and needs no option.
//
// # Look inside
//
//	psql -c 'SELECT * FROM headroom_ledger.pages'
//	psql -c 'SELECT * FROM headroom_ledger.spent LIMIT 20'
//	psql -c 'SELECT day, job, sum(units) FROM headroom_ledger.spent GROUP BY 1, 2'
//
// Times in the tables are microseconds since 1970 UTC; the views show them as text. Rows of
// the table reservations older than 36 days are deleted in the background.
//
// # Backup
//
//	pg_dump --schema headroom_ledger headroom
//
// A restored copy lacks what was spent since. The journal notices it, and calls are refused
// until a person puts back what was spent.
package pgstore
