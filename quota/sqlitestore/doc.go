// Package sqlitestore keeps a ledger in one SQLite file: the embedded default. It
// needs no server and no cgo, and several processes of one machine share the
// file.
//
//	store, err := sqlitestore.Open(ctx, "/var/lib/ingestor/ledger.db", nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	ledger, err := quota.New(book, store, nil)
//
// # What it guarantees
//
// Every operation is one transaction that holds the file's write lock from before
// it reads until it is committed, so what [quota.Store] promises holds for
// goroutines and processes alike. A grant is returned only after its commit: a
// process that is killed, even with SIGKILL and in mid-write, forgets nothing that
// it was granted. The tests do that.
//
// Each connection runs with journal_mode=WAL and synchronous=FULL and reads both
// back before it is used, so a commit waits until the disk says that it has the
// data. That a power cut then loses nothing rests on SQLite, the file system and
// the disk: power loss is NOT tested here.
//
// A file that is replaced or deleted under a running process, be it the -wal or
// the -shm beside it, is an outage ([quota.ErrOutage]) and never an empty ledger.
// So is a pool whose row is gone while something of it may still count: the table
// births remembers it, and [quota.ForgottenError] stands until
// [quota.Request.Restore] puts the spend back. A whole file that was deleted, or
// replaced by an older copy, while no process ran is noticed only with
// [Options.Births]: a memory outside the file, such as a journal beside it. A copy
// that lacks only the last minute before a crash may go unnoticed. If the file and
// that memory are both gone, nothing shows that units were spent.
//
// WAL needs shared memory: the file must lie on a local disk, not on NFS or SMB.
//
// Never open the file by other means than SQLite in a process that uses it: to
// close any descriptor of it drops the locks of all (POSIX says so).
//
// # Who waits for whom
//
// One transaction writes at a time. Who finds the file busy tries again until
// [Options.Wait] has passed or its context ends; the error then names the process
// that may hold it. Look and Spend never wait for writers.
//
// # To look inside
//
// With Debian's sqlite3, at any time, also while it is in use:
//
//	sqlite3 -readonly -box ledger.db 'SELECT * FROM pages'
//	sqlite3 -readonly -box ledger.db 'SELECT * FROM spent LIMIT 20'
//	sqlite3 -readonly -box ledger.db 'SELECT day, job, sum(units) FROM spent GROUP BY 1, 2'
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
