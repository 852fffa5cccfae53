// Package plan prices a schedule ahead of time: it runs it, on a clock that is moved.
//
//	p, err := plan.Make(ctx, config, book, &plan.Options{From: time.Now(), Days: 30})
//	if !p.Fits {
//		fmt.Println("deferred first:", p.First.Job, p.First.Region, "until", p.First.Until)
//	}
//
// Nothing is estimated by a formula. The daemon, the runner and the ledger are the
// real ones; so is the client of the SDK with the metered transport below it. What is
// simulated is the clock, the upstream (internal/youtubesim, in this process), and the
// catalog, which is a [catalog.Sketch]: it does for a run what a catalog does, without
// texts. A test holds plans against runs with both in files, over HTTP.
//
// # What it goes by
//
//   - How many pages a unit of work has: as the record of its runs says, where there
//     is one; otherwise as the simulated upstream has it.
//   - What has failed in its last runs goes on failing, at the price of its attempts.
//   - What was spent before, if it is given: the windows begin with it, and so does the
//     count of the simulated upstream.
//   - What the catalog holds, if it is given: how far work has got, and how old what is
//     known is. Ids of the real upstream are taken to be there for ever.
//
// # What it leaves out
//
// It is the daemon that is planned. What cron makes of run --once depends on when it
// calls. Answers take no time, and jitter is none. Work is done one after the other, so that
// a plan is the same each time: where a quota ends within a run, a real one may stop
// in the middle of several regions at once.
package plan
