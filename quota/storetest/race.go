//go:build race

package storetest

// slower is how many times less often a test repeats with -race. Each repetition takes several
// times as long then, and a race shows in the first few.
const slower = 4
