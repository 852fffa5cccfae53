// Package storetest is the conformance suite that every [quota.Store] passes: in memory, in
// SQLite, in Redis, in PostgreSQL, in leased blocks on top of them, and your own. It tests what a ledger promises:
//
//  1. Never over: no grant takes a window past its limit.
//  2. All or nothing: a call charges all of its pools and windows, or none.
//  3. Honest Retry-After: the same call succeeds then, and not before.
//  4. Bounded lateness: units come back at most one precision late.
//  5. Impossible is not throttled: such a call fails at once, with its own error.
//  6. Once: an id is charged once, and settled once.
//  7. Settling tells the truth about the units that came back.
//  8. Time only moves forward: a clock that steps back neither frees nor loses units.
//  9. Small: the size of a page depends on precision, not on limit, cost or traffic.
//  10. Bad input changes nothing.
//  11. An outage is not a refusal. The method's policy says what to do then.
//  12. Blocks heal by themselves.
//
// Promise 11 is tested in packages quota and journal, not here.
//
// # A new store
//
// A store that keeps pages in Go is a backend of quota/pagestore. Any other store
// implements the seven methods of [quota.Store] with the help of quota/storekit. Describe
// the store to the suite with a [Harness], and call [Run] from a test. The example is the
// whole test of a store in memory.
//
// The harness says what a store can do. The suite skips what is left nil, and logs why:
//
//   - SetClock: tests never sleep. If a store decides by a clock of its own, such as a
//     server's, the harness must be able to move that clock. Without it, the suite skips
//     all tests that need time to pass.
//   - Share: other processes use the same data.
//   - Reopen: the data survives a restart.
//   - Size: how much the store keeps, for promise 9.
//   - Families: pages per key.
//
// # Tests
//
// A subtest per promise of docs/promises.md, named as a fact
// (TestStore/never_over), and the model: a plain list of charges per window, and
// arithmetic that was written without a look at quota/window. Random operations
// go to the store and to the model; every verdict, settlement and page must be
// the same to the microsecond.
//
// The model test makes about 3,000 operations, and 100,000 if HEADROOM_SOAK is
// set to 1; -rapid.checks and -rapid.steps override both. It logs its seed
// always. To see the same timelines again:
//
//	go test ./quota/memstore -run TestStore/model -rapid.seed=12345
//
// A failure is shrunk to few operations and saved under testdata/rapid.
//
// The model sees one call at a time. In TestStore/linearizable many callers share one pool.
// It records each request and its answer. Then porcupine searches for an order in which a
// pool that takes one call at a time gives the same answers. Without such an order, some
// call was not atomic. The log then has the calls that can be explained, and -artifacts
// keeps a picture of them. The seed repeats the calls, but not their interleaving.
//
// # Freedom of a store
//
// A refusal and a look need not write anything, so a store may or may not
// remember that it has seen the clock at that time. Whether a clock that then
// steps back is seen to step back is up to the store; what it grants must be
// right either way. So the model charges each page before it moves the clock
// back, and after a page was laid out again or re-based.
package storetest
