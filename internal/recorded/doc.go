// Package recorded makes recorded calls of an upstream without a call. They go through the
// real transport, with a ledger in memory and a clock that stands still, and it notes what
// becomes of them.
package recorded
