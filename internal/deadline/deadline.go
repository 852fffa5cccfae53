// Package deadline keeps bounds on time inside each other. Whoever waits must end
// before its caller does. Otherwise the caller's deadline passes first, and nobody is
// left to act on what was found: a ledger that is locked would never be an outage, and
// a call that may be admitted in one would never be.
//
// A store, and a file of SQLite, waits for its own bound or for [Share] of what its
// caller has left, whichever is shorter. These are the bounds, from the outside in.
// Each is shorter than the one that it stands in:
//
//	outermost                           within it           innermost
//	http.Server        answer 30s       body 15s, header 5s
//	  web              a question 5s    ledger 2s           + journal 1s
//	    /readyz        2s               ledger at most 1s
//	  pages            5s for each of   ledger 2s, catalog 2.5s
//	  metrics          5s               ledger 2s           then the catalog
//	run                max_runtime      call_timeout 30s    ledger 2s + journal 1s
//	ledger             settle 5s        ledger 2s           + journal 1s
//	meter              block 5s a pool  ledger 2s           + journal 1s
//	breaker            probe 2s         ledger at most 1s
//	plan               ledger 3s        ledger at most 1.5s
//
// "Ledger" is one question to its store: a round trip to Redis (redisstore.Options), or
// the wait for a file of SQLite that is busy (sqlitestore.Options). A statement of
// SQLite itself waits for 5 ms, and for 100 ms in the journal, because it does not hear
// its context meanwhile. The catalog waits for 5 s where no caller has a deadline.
package deadline

import (
	"context"
	"time"
)

// Share returns how long something may wait under a context: most, but no more than
// half of the time until the context's deadline. The other half is for the caller, who
// must act on a wait that failed: a call that is admitted is written to disk first. Cut
// reports whether the deadline made the wait shorter.
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
