// Package sqlitestore keeps a ledger in one SQLite file. It is the default, needs no server
// and no cgo, and can be shared by the processes of one machine.
//
//	store, err := sqlitestore.Open(ctx, "/var/lib/ingestor/ledger.db", nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	ledger, err := quota.New(book, store, nil)
//
// # Guarantees
//
// Every operation is one transaction. It holds the file's write lock from before its first
// read until its commit, so the promises of [quota.Store] hold for goroutines and
// processes alike. A grant is returned only after its commit. A process that is killed,
// even with SIGKILL during a write, loses no grant. The tests do that.
//
// Each connection runs with journal_mode=WAL and synchronous=FULL and reads both
// back before it is used, so a commit waits until the disk says that it has the
// data. Whether a power cut loses nothing then depends on SQLite, the file system and
// the disk. Power loss is NOT tested here.
//
// If the file, its -wal or its -shm is replaced or deleted under a running process, the
// result is an outage ([quota.ErrOutage]) and never an empty ledger. The same holds for a
// pool whose row is missing while its spend may still count. The table births remembers
// the pool, and its calls get [quota.ForgottenError] until [quota.Request.Restore] puts the
// spend back. The loss of the whole file while no process runs, or an older copy in its
// place, is noticed only with [Options.Births], a memory outside the file such as the
// journal. A copy that lacks only the last minute before a crash may go unnoticed. If both
// the file and that memory are lost, the loss is not noticed.
//
// WAL needs shared memory, so the file must be on a local disk, not on NFS or SMB.
//
// In a process that uses the file, open it only with SQLite. Under POSIX, closing any other
// descriptor of the file drops all locks.
//
// # Busy files
//
// One transaction writes at a time. An operation that finds the file busy retries until
// [Options.Wait] has passed or its context ends. The error then names the process that
// may hold the lock. Look and Spend never wait for writers. Calls of Spend take
// turns, so that they leave a connection for Look.
//
// # Look inside
//
// With Debian's sqlite3, at any time, also while it is in use:
//
//	sqlite3 -readonly -box ledger.db 'SELECT * FROM pages'
//	sqlite3 -readonly -box ledger.db 'SELECT * FROM spent LIMIT 20'
//	sqlite3 -readonly -box ledger.db 'SELECT day, job, sum(units) FROM spent GROUP BY 1, 2'
//
// Change no rows by hand: a process that runs would notice up to six hours later.
//
// Times in the tables are microseconds since 1970 UTC; the views show them as
// text. Rows of the table reservations older than 36 days are deleted, a few with
// each write.
//
// # Backup
//
// [Backup] copies a ledger while processes use it, as does
//
//	sqlite3 ledger.db '.backup /backup/ledger.db'
//
// Do not use cp: it misses the -wal. [Restore] puts a backup in the place of a ledger
// that no process uses, and says what it lacks.
package sqlitestore
