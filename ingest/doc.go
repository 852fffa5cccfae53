// Package ingest runs scheduled jobs that fetch from a metered upstream for many
// regions, inside its quota.
//
// A [Job] is a list of units of work: the chart of a region, a query in a region, a
// channel. A [Runner] makes a run of it, a [Daemon] makes runs when they are due.
//
// # A run
//
//   - works on the stalest units of work first, several at a time. A run that the quota
//     cuts short never starves the same regions twice.
//   - fetches page by page, and commits the rows of a page with the cursor in one
//     transaction. A process that is killed resumes at the same page.
//   - waits for units that come back within max_wait. If they come back later, the run
//     leaves the remaining work, and records when it can resume.
//   - retries temporary failures up to three times. Each retry is metered. A unit of work
//     that fails does not stop the others. Failed work, and an upstream that is down, are
//     retried after 5 minutes, then after twice as long each time, up to 160 minutes.
//   - shows a chart when it is complete, and moves the mark of an incremental search when
//     its pass is complete. The mark never passes data that was not fetched.
//
// When the context of a run ends, open pages are finished and saved. The same job never
// runs twice at once: see package lease.
//
// All calls go through a metered http.Client (quota/meter). The spend is labelled with the
// job and the region.
//
// # Storage
//
// The catalog (ingest/catalog) keeps everything. Retention is a job like the others, and
// every configuration has one. It fetches data again after 25 days, and deletes data
// before it is 30 days old, even if there is no quota to fetch it.
package ingest
