// Package quota keeps all processes that spend a metered API's quota inside that
// quota. Each call reserves its units in a shared [Ledger] before it is sent. If the
// units are not there, the call is refused, and the error says when to retry.
//
// There are three ways in. Most programs want the first:
//
//  1. For HTTP, take a client of headroom.Client or open.Client, or make the transport of
//     package quota/meter the transport of your own. It prices and reserves every request.
//     Your other code stays as it is.
//
//  2. For any other call, use [Ledger.Do]. It reserves, calls your function, and keeps
//     the charge unless the function returns [ErrUnsent].
//
//  3. By hand, use [Ledger.Reserve]. If the call cost something else than was reserved,
//     use [Reservation.Settle]; if it was never sent, [Reservation.Release]. An answered
//     call that cost its price needs neither.
//
// [Ledger.Wait] is Reserve for callers that can wait for units. [Ledger.Check] says what
// Reserve would answer, and takes nothing. A [Hold] reserves the calls of a whole pass at
// once: all of them or none. After a call that takes a slot among the calls in flight, use
// [Reservation.Done]; Do and quota/meter do so by themselves. [Ledger.Observe] takes what an
// upstream has reported about its limits, as quota/meter reads it from answers.
//
// The methods of a Ledger make calls, and take what upstreams say. [Ledger.View] reads what is
// used and who spent it. [Ledger.Admin] corrects the ledger by hand, and sets limits.
//
// # Opening a ledger
//
// Package quota/open opens a ledger by its address, with the journal, breaker and locks
// that belong to it:
//
//	opened, err := open.Open(ctx, "redis://localhost:6379/0", &open.Options{Book: book})
//
// A program that must stay small imports one store and calls [New]. Stores are
// quota/memstore (one process), quota/sqlitestore (one machine), quota/redisstore and
// quota/pgstore (many machines). quota/leasestore hands out blocks of any of them. Package
// quota/book reads the price book, which says what calls cost and how much may be spent. [Ledger.SetBook] changes to another one.
//
// # Refusals
//
// All three ways return the same errors. Use [errors.Is] for the kind and [errors.As] for
// the details:
//
//	var refused *quota.RefusedError
//	if errors.As(err, &refused) {
//		resumeAt(refused.RetryAt) // the same call succeeds then
//	}
//
// This is what to do about each kind:
//
//   - [ErrRefused], [ErrBlocked]: retry later.
//   - [ErrImpossible], [ErrUnpriced]: change the price book or the call.
//   - [ErrOutage]: the ledger is down, or has lost data. What is left is unknown.
//   - [ErrStaleBook]: another process has a newer price book.
//   - [ErrBadInput]: change the request. [ErrOtherCharges], [ErrNoReceipt] and
//     [ErrOtherWindows] are kinds of it.
//
// Package quota/storetest states what every ledger promises, and tests it. It is also
// the place to begin with a store of your own. quota/README.md explains the decisions.
package quota
