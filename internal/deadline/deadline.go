// Package deadline nests timeouts. A wait must end before its caller's deadline, so that the
// caller can act on the result: otherwise a locked ledger would never be reported as an
// outage, and no call could be admitted in one.
//
// A store or a SQLite file waits for its own bound or for [Share] of its caller's remaining
// time, whichever is shorter. These are the bounds, from the outside in. Each is shorter
// than the one around it:
//
//	outermost                           within it           innermost
//	http.Server        answer 30s       body 15s, header 5s
//	  web              a question 5s    ledger 2s           + journal 1s
//	    /readyz        2s               ledger at most 1s     read, then 0.5s to 1s for its lock
//	  pages            5s for each of   ledger 2s, catalog 2.5s
//	  metrics          5s               ledger 2s           then the catalog
//	run                max_runtime      call_timeout 30s    ledger 2s + journal 1s
//	ledger             settle 5s        ledger 2s           + journal 1s
//	meter              block 5s a pool  ledger 2s           + journal 1s
//	breaker            probe 2s         ledger at most 1s
//	plan               ledger 3s        ledger at most 1.5s
//
// "Ledger" is one operation of its store: an answer of Redis or PostgreSQL (Options.Timeout), or the
// wait for a busy SQLite file (sqlitestore.Options). A single SQLite statement waits for
// 5 ms, and for 100 ms in the journal, because it does not notice its context meanwhile. The
// catalog waits for 5 s if its caller has no deadline.
package deadline

import (
	"context"
	"time"
)

// Share returns how long to wait under a context: most, but at most half of the time until
// the context's deadline. The caller needs the other half to act on a failed wait: it writes
// an admitted call to disk first. Cut reports whether the deadline made the wait shorter.
func Share(ctx context.Context, most time.Duration) (wait time.Duration, cut bool) {
	at, ok := ctx.Deadline()
	if !ok {
		return most, false
	}
	if share := time.Until(at) / 2; share < most {
		return max(share, 0), true
	}
	return most, false
}
