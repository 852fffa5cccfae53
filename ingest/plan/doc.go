// Package plan prices a schedule ahead of time. It runs the schedule on a simulated clock.
//
//	p, err := plan.Make(ctx, config, book, &plan.Options{From: time.Now(), Days: 30})
//	if !p.Fits {
//		fmt.Println("deferred first:", p.First.Job, p.First.Region, "until", p.First.Until)
//	}
//
// No formula estimates anything. The daemon, the runner, the ledger, the client of the SDK
// and the metered transport below it are the real ones. Three parts are simulated: the
// clock, the upstream (ingest/youtube/youtubesim, in this process) and the catalog, which is a
// [Sketch]. A test compares plans with runs whose ledger and catalog are files, over HTTP.
//
// # Input
//
//   - The number of pages of a unit of work comes from the record of its runs. Without a
//     record it is that of the simulated upstream.
//   - Work that failed in its last runs keeps failing, and spends units on its attempts.
//   - Earlier spend, if given, fills the windows and the counts of the simulated upstream.
//   - The catalog, if given, says where work stopped and how old the data is. Ids of the
//     real upstream are taken to exist for ever.
//
// # Limits
//
// A plan simulates the daemon. The result of run --once depends on when cron starts it.
// Responses take no time, and there is no jitter. Work runs one unit after the other, so
// that the same input gives the same plan. A real run may stop in the middle of several
// regions at once when a quota ends.
package plan
