// Package boundary measures how much a limiter accepts in the worst case. It runs the same
// timelines against each limiter, call by call, and counts the fullest trailing window of
// the accepted calls. It relies only on the times of these calls.
package boundary

import (
	"context"
	"slices"
	"time"
)

// Limiter asks for one request. It reports whether the request is accepted, and when, by the
// clock that decided.
type Limiter func(ctx context.Context) (at time.Time, accepted bool, err error)

// Rate is the setting of a limiter: a number of requests in any window of a length.
type Rate struct {
	Limit int
	Per   time.Duration
}

// Window is a trailing window with the number of requests accepted in it.
type Window struct {
	Accepted int
	From, To time.Time // times of the first and the last of them
}

// Worst returns the first trailing window of length per with the most accepted requests. A
// request counts for less than per, as in the windows of the ledger.
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
