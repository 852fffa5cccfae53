// Package deadline nests timeouts, and has the one rule of patience: what a caller's deadline or
// cancellation cuts off says nothing about the store. The caller gets the error of its context. Only
// what a store fails to answer within its own timeout is an outage.
//
// So a wait must end before the deadlines that this module sets around it. Otherwise a locked ledger
// would never be reported as an outage, and no call could be admitted in one. These are the
// bounds, from the outside in. Each is shorter than the one around it:
//
//	outermost                           within it           innermost
//	http.Server        answer 30s       body 15s, header 5s
//	  web              a question 5s    ledger 2s           + journal 1s
//	    reserve        + wait 5s        ledger 2s           + journal 1s
//	    /readyz        2s               ledger 1s             then the catalog
//	  pages            5s for each of   ledger 2s, then the catalog
//	  metrics          5s               ledger 2s           then the catalog
//	run                max_runtime      call_timeout 30s    ledger 2s + journal 1s
//	ledger             settle 5s        ledger 2s           + journal 1s
//	meter              block 5s a pool  ledger 2s           + journal 1s
//	breaker            probe 2s         ledger 2s
//	plan               ledger 3s        ledger 2s
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

// Err returns the error of a context that has ended, or nil. A deadline counts from the moment at which it
// passes: a network notices that before the context does.
func Err(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Share returns a part of the time that a context has left, and at most so much.
func Share(ctx context.Context, parts int, most time.Duration) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return min(most, time.Until(at)/time.Duration(parts))
	}
	return most
}
