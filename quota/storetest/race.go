//go:build race

package storetest

// slower is how many times less often a test repeats with -race. SQLite, which is Go here,
// takes ten times as long then, and a race shows in the first few repetitions.
const slower = 4
