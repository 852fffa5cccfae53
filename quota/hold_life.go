package quota

import (
	"errors"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// How long a hold lasts.
const (
	// maxHold is well within the life of a receipt.
	maxHold = 15 * time.Minute
	// minWindow is the shortest sliding window for whose units there are holds: in
	// less time no pass is made.
	minWindow = time.Second
)

// slack is how long after an instant, at which a store took units, they may leave
// without being taken again. Everything that hands out units taken earlier follows this
// rule, so that no window is over by the upstream's count:
//
//	Units that count until t must have left by t - per.
//
// For let a call leave at d. At each instant s at which the upstream still counts it,
// which is before d + per, the ledger counts it, too. So all that the upstream counts
// at s the ledger counts at s, and that is never over the limit.
//
// [window.Spec.Slack] is how long that is in a window. A calendar counts units in its
// period, however late they leave; holdEnds sees to it that they leave within.
//
// When units are taken again before they leave late, the new ones begin to count
// before the old ones cease to, and the old ones never leave. So what the upstream
// counts, and what is held and may yet leave, is counted by the ledger all the time,
// provided that the old units still count: therefore a hold must end with its shortest
// sliding window.
//
// What was settled up, adjusted or admitted in an outage may pass a limit, here as
// everywhere. And a call's time on its way is no part of this, as it is of no
// reservation.
func slack(at time.Time, charges []Charge) time.Duration {
	least := maxHold
	for i := range charges {
		for _, w := range charges[i].Windows {
			least = min(least, w.Spec.Slack(window.At(at)))
		}
	}
	return least
}

// elapsed is how long ago an instant was, by the wall clock or by the monotonic one,
// whichever says more: the one may be set back, the other stands still while a machine
// sleeps.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// holdEnds is when a hold made now ends. One that would have ended before it
// began is refused until the boundary is behind.
func holdEnds(clock time.Time, charges []Charge) (time.Time, error) {
	now := window.At(clock)
	ends := now.Add(maxHold)
	for i := range charges {
		for _, w := range charges[i].Windows {
			if !w.Spec.Calendar() {
				if w.Spec.Per < minWindow {
					return time.Time{}, BadInput("hold %s: its window of %s is too short for a pass; reserve each call by itself",
						charges[i].Pool, w.Name)
				}
				ends = min(ends, now.Add(w.Spec.Per))
				continue
			}
			_, boundary := w.Spec.Bounds(now)
			end := boundary.Add(-max(w.Spec.Lag, 0))
			if end <= now {
				return time.Time{}, &RefusedError{Verdict{
					Pool: charges[i].Pool, Window: w.Name, Units: charges[i].Units, Limit: w.Limit, At: clock,
					Reason:  "a hold would end at the boundary of " + w.Name,
					RetryAt: boundary.Time(), RetryAfter: boundary.Sub(now), ResetAt: boundary.Time(),
				}}
			}
			ends = min(ends, end)
		}
	}
	return ends.Time(), nil
}

// afterBoundaries puts off the time of a refusal for as long as a hold made then would
// end before it began.
func afterBoundaries(err error, charges []Charge) error {
	var refused, next *RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	for range maxCharges * maxWindows { // calendars of several zones may take turns
		_, late := holdEnds(refused.RetryAt, charges)
		if !errors.As(late, &next) {
			break
		}
		refused.RetryAfter += next.RetryAt.Sub(refused.RetryAt)
		refused.RetryAt = next.RetryAt
	}
	return err
}
