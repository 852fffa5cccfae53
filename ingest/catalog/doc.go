// Package catalog stores what jobs fetch, the position of each job, and the history of
// runs, in one SQLite file. For fleets, package pgcatalog does the same in PostgreSQL. Package
// catalogtest is the suite that both pass.
//
// # Engine and homes
//
// An [Engine] is what both do: it asks for what it has to know, decides, and then says what
// changes. A [Home] is a database: its transactions, its index of words, how it saves videos, and
// how it cleans up. The statements of sql/ are those of both, as PostgreSQL understands them. The
// home of this package translates the little that SQLite says otherwise, and has statements of
// its own in sqlite/. It runs them one by one. PostgreSQL's home sends them together.
//
// # How a run uses it
//
//	fence, err := cat.NewFence(ctx, "default/trending")     // behind a lock; or use a lease's token
//	run, err := cat.Begin(ctx, catalog.Start{Job: "trending", Fence: fence})
//	for _, work := range works {
//		cur, err := cat.Cursor(ctx, "trending", work)   // where the work stopped
//		for more := true; more; {
//			page := fetch(ctx, cur)                 // sets page.Cursor to cur
//			saved, err := run.Save(ctx, page)       // saves the rows and the cursor together
//			cur, more = saved.Cursor, !page.Done
//		}
//		err = run.EndWork(ctx, work, region, catalog.Outcome{State: catalog.Done})
//	}
//	err = run.End(ctx, catalog.Outcome{State: catalog.Done})
//
// A page is one transaction. It holds videos, channels, statistics, places in a chart,
// the words of the index, the cursor and the counts of the run. If the process is killed,
// each page is either saved or not. The tests kill it at many points. Saving a page twice
// changes nothing, because the cursor shows that it was saved.
//
// A unit of work is fetched in passes. A chart is shown when its pass is complete, and
// replaces the one before. The first page of an incremental pass says where the pass
// begins, and each page says the latest time it holds. A complete pass makes the latest
// time the cursor's Mark. The next pass begins there.
//
// # Search
//
// Package words splits texts into words, for FTS5. Words are in lower case and
// without accents. In scripts without spaces each pair of neighbouring characters is a
// word, so 東京 is found as fast as any other word. A trigram index was rejected: it finds
// nothing shorter than three characters. Its file was 2.3 times as large, and it took 2.8
// times as long to fill (bench/README.md). The words depend on Unicode's tables. The file
// records their version, and a program with another version rebuilds the index when it
// opens the file.
//
// # Retention
//
// Rows hold the time at which they were last fetched. [Engine.Ages] lists the data to
// refresh. A page's Gone deletes data that the upstream no longer has. [Engine.Expire]
// deletes data older than a limit, such as the 30 days of YouTube's terms. The text of
// deleted rows leaves the file.
//
// # Guarantees
//
// Every connection runs with journal_mode=WAL and synchronous=FULL and reads both back.
// One process writes at a time. A process that finds the file busy waits as long as
// [Options.Wait] says. Readers never wait. WAL needs shared memory, so keep the file on a
// local disk. Open it only with SQLite in a process that uses it: closing any descriptor
// of the file drops all locks on it. A file that is replaced or deleted under a running
// process is detected at the next page, and the process stops writing.
//
// Times in the tables are microseconds since 1970 UTC. Debian's sqlite3 can read
// everything but the index. It cannot change videos, because the triggers need functions
// of this program.
package catalog
