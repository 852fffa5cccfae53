// Package boundary finds out what limiters let through at worst. It puts the same
// timelines to each of them, call by call, and counts the fullest trailing window of
// what was accepted: all that it believes is that list of instants.
package boundary

import (
	"context"
	"slices"
	"time"
)

// Limiter asks for one request. It returns whether that is accepted, and if so at
// which instant, by the clock that decided.
type Limiter func(ctx context.Context) (at time.Time, accepted bool, err error)

// Rate is what a limiter is set to: so many requests in any window of that length.
type Rate struct {
	Limit int
	Per   time.Duration
}

// Window is a trailing window, and what was accepted within it.
type Window struct {
	Accepted int
	From, To time.Time // the first and the last of them
}

// Worst returns the trailing window of length per with the most accepted, the first
// of several. What was accepted at an instant counts until per after it, and not at
// per itself: so do the windows of the ledger.
func Worst(accepted []time.Time, per time.Duration) (worst Window) {
	in := slices.SortedFunc(slices.Values(accepted), time.Time.Compare) // clocks step back
	for oldest, i := 0, 0; i < len(in); i++ {
		for in[i].Sub(in[oldest]) >= per {
			oldest++
		}
		if n := i - oldest + 1; n > worst.Accepted {
			worst = Window{Accepted: n, From: in[oldest], To: in[i]}
		}
	}
	return worst
}
