// Package catalog keeps what was fetched, how far each job has got and what each run
// did, in one SQLite file.
//
// # How a run uses it
//
//	fence, err := cat.NewFence(ctx, "default/trending")     // behind a lock; or a lease's own token
//	run, err := cat.Begin(ctx, catalog.Start{Job: "trending", Fence: fence})
//	for _, work := range works {
//		cur, err := cat.Cursor(ctx, "trending", work)   // where it stopped
//		for more := true; more; {
//			page := fetch(ctx, cur)                 // its At is cur
//			saved, err := run.Save(ctx, page)       // the rows and the cursor, or neither
//			cur, more = saved.Cursor, !page.Done
//		}
//		err = run.EndWork(ctx, work, region, catalog.Outcome{State: catalog.Done})
//	}
//	err = run.End(ctx, catalog.Outcome{State: catalog.Done})
//
// A page is one transaction: its videos, channels, statistics and places in a chart,
// the words they are found by, the cursor and the count of the run. So a process that
// is killed at any instant leaves each page whole or not at all; the tests do that. A
// page that is saved already changes nothing, because its cursor says so.
//
// A unit of work is fetched in passes. A chart is shown when its pass is complete, in
// place of the one before. What is incremental says with the first page of a pass
// where it begins, and with each the latest it has met; when the pass is complete, and
// never before, the latest becomes the cursor's Mark, at which the next begins.
//
// # What people search for
//
// FTS5 is given words that this package makes (words.go): in lower case, without
// accents, and of scripts without spaces each pair of neighbouring characters. So
// 東京 is found as fast as anything else. A trigram index beside a plain one was turned
// down: it finds nothing of less than three characters, and of the same texts the file
// was 2.3 times as large as with these words and took 2.8 times as long to fill
// (bench/README.md). The words depend on Unicode's tables, so the file says which they
// were made with, and a program with others makes the index anew when it opens it.
//
// # What is kept, and how long
//
// Rows carry the time at which they were last fetched. [Catalog.Aging] lists what has
// to be refreshed, a page's Gone deletes what could not be, and [Catalog.Expire] deletes
// whatever is older than a limit, such as the 30 days of YouTube's terms: rows, words
// and all, so that the text leaves the file.
//
// # Guarantees, and what they rest on
//
// Every connection runs with journal_mode=WAL and synchronous=FULL and reads both back.
// One process writes at a time, and who finds the file busy waits as [Options.Wait]
// says; readers never wait. WAL needs shared memory: the file must lie on a local disk.
// Never open it by other means than SQLite in a process that uses it: to close any
// descriptor of it drops the locks of all. A file that is replaced or deleted under a
// running process is noticed at the next page, and nothing more is written to it.
//
// Times in the tables are microseconds since 1970 UTC. Debian's sqlite3 may read all
// but the index of words; it cannot change a video, as the triggers need this program.
package catalog
