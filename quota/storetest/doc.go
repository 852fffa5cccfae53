// Package storetest is the one conformance suite that every [quota.Store]
// passes: in memory, in SQLite, in Redis, and in a store of your own.
//
// # A new store
//
// Implement the six methods of [quota.Store], describe the store to the suite
// with a [Harness], and call [Run] from a test. That is all; see the example,
// which is the whole test of a store that is kept in memory.
//
// The harness says what a store can do, so that the suite does not fork. What a
// store cannot do is left nil and skipped with its reason:
//
//   - SetClock: tests never sleep. A store that decides by a clock of its own
//     (a server's) needs a door through which the harness moves that clock.
//     Without it only what needs no passing of time is tested.
//   - Share: other processes use the same data.
//   - Reopen: the data survives a restart.
//   - Size: how much the store keeps, for promise 9.
//   - Families: pages per key.
//
// # What is tested
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
// What the model sees is one call at a time. TestStore/linearizable has many
// callers at one pool, records who asked what and was told what, and lets
// porcupine search for an order in which a pool that takes one call at a time
// would have said the same. If there is none, some call was not atomic: the log
// has the calls as far as they can be explained, and -artifacts keeps a picture of
// them. The seed repeats the calls, but not how the machine interleaves them.
//
// # What is left open
//
// A refusal and a look need not write anything, so a store may or may not
// remember that it has seen the clock at that time. Whether a clock that then
// steps back is seen to step back is up to the store; what it grants must be
// right either way. So the model charges each page before it moves the clock
// back, and after a page was laid out again or re-based.
package storetest
