// Package quota keeps every process that spends a metered API's quota inside
// that quota. A call reserves its units in a shared [Ledger] before it leaves; a
// call that cannot be paid for is refused, with the time at which it could be.
//
// # Three ways in
//
// Around HTTP, use the transport of package quota/meter and change nothing else:
// every request that leaves is priced and reserved.
//
// Around anything else, use [Ledger.Do]. It keeps the charge unless the function
// says that the call provably never left:
//
//	err := ledger.Do(ctx, quota.Call{Method: "videos.list"}, func(ctx context.Context) error {
//		return fetch(ctx) // returns quota.ErrUnsent if nothing was sent
//	})
//
// By hand, use [Ledger.Reserve], and [Reservation.Settle] or
// [Reservation.Release] where the call cost something else. A reservation that is
// left alone stands as spent: an answered call needs no second round trip. A
// [Hold] reserves a whole pass at once.
//
// Most callers should use the transport. Those who can wait use [Ledger.Wait].
//
// # Refusals
//
// Every way in returns the same errors. Ask with [errors.Is] for the kind and with
// [errors.As] for the details:
//
//	var refused *quota.RefusedError
//	if errors.As(err, &refused) {
//		resumeAt(refused.RetryAt) // the same call succeeds then
//	}
//
// [ErrRefused] and [ErrBlocked] mean come again; [ErrImpossible] and [ErrUnpriced]
// mean change the price book or the call; [ErrOutage] means that nobody knows;
// [ErrStaleBook] means that another process has a newer price book. [ErrBadInput] means
// change the question; [ErrOtherCharges], [ErrNoReceipt] and [ErrOtherWindows] are kinds of it.
//
// # The price book
//
// The price book says what calls cost and how much there is. Package quota/book
// reads it from costs.yaml. [New] takes a [Book], and [Ledger.SetBook] changes to
// another one.
//
// # Stores
//
// A [Store] keeps the pages of pools: quota/memstore in memory, quota/sqlitestore
// for the processes of one machine, quota/redisstore for many machines. All pass
// the suite in quota/storetest, which states what a ledger promises:
//
//  1. Never over: nothing is granted that would take a window past its limit.
//  2. All or nothing: of several pools and windows all are charged or none.
//  3. Honest retry-after: the same call succeeds then, and not before.
//  4. Bounded lateness: capacity comes back at most one precision late.
//  5. Impossible is not throttled: it fails at once, with an error of its own.
//  6. Once: the same id charges once, settling takes effect once.
//  7. Settling tells the truth about what came back.
//  8. Time only moves forward: a clock that steps back frees and loses nothing.
//  9. Small: a page depends on precision, not on limit, cost or traffic.
//  10. Bad input changes nothing.
//  11. An outage is not a refusal; what to do then is the method's policy.
//  12. Blocks heal by themselves.
//
// The README beside this file has the decisions and what was turned down.
package quota
