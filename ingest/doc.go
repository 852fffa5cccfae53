// Package ingest runs scheduled jobs that fetch from a metered upstream for many
// regions, inside its quota.
//
// A [Job] is a list of units of work: the chart of a region, a query in a region, a
// channel. A [Runner] makes a run of it, a [Daemon] makes runs when they are due.
//
// # A run
//
//   - takes units of work stalest first, a few side by side, so that a run that is
//     cut short by the quota never starves the same regions twice;
//   - fetches page by page, and commits the rows of a page and the cursor in one
//     transaction: killed at any instant, it goes on where it was;
//   - waits for units that come back within max_wait; where they are farther off, it
//     leaves what it has not begun, and notes the time at which it can go on;
//   - tries what may pass three times, each metered; one unit of work that fails
//     stops no other, and an upstream that is down is left alone; both are tried again
//     after 5 minutes, then after twice as long each time, up to 160;
//   - shows a chart when it is complete, and moves the mark of an incremental search
//     when a pass is: never past what was not fetched.
//
// When the context of a run ends the page under way is finished and saved. The same
// job never runs twice at once: see package lease.
//
// Calls go through an http.Client that is metered (quota/meter), and nothing else
// may call. The labels of the spend are the job and the region.
//
// # What it keeps
//
// All is in a catalog (ingest/catalog). Retention is a job like the others, there by
// default: what is older than 25 days is fetched again, and what would soon be older
// than 30 is deleted, also when there is no quota to fetch it.
package ingest
