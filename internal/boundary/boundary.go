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
func Worst(accepted []time.Time, per time.Duration) Window { return Fullest(accepted, accepted, per) }

// Fullest is [Worst] for requests that were accepted at an unknown time between two known
// ones, such as a call and its answer. It counts a request only if both are in the window, so
// a limiter is never blamed for what may have been accepted outside. The order of the times
// does not matter.
func Fullest(sent, answered []time.Time, per time.Duration) (worst Window) {
	from := slices.SortedFunc(slices.Values(sent), time.Time.Compare) // clocks step back
	to := slices.SortedFunc(slices.Values(answered), time.Time.Compare)
	ended := 0
	for begun, start := range from {
		for ended < len(to) && to[ended].Sub(start) < per {
			ended++
		}
		// The requests begun before start have not all ended, so this is at most the count.
		if n := ended - begun; n > worst.Accepted {
			worst = Window{Accepted: n, From: start, To: to[ended-1]}
		}
	}
	return worst
}
