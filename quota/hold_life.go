package quota

import (
	"errors"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// These bound how long a hold lasts.
const (
	// maxHold is the longest hold. It is well within the life of a receipt.
	maxHold = 15 * time.Minute
	// maxHeld is the most calls that a hold is for.
	maxHeld = 1<<31 - 1
	// minWindow is the shortest sliding window that can be held. No pass is made in less
	// time.
	minWindow = time.Second
)

// slack returns how long after a store took units a call may use them without taking them
// again. Everything that hands out units taken earlier follows one rule, so that no
// window is over its limit by the upstream's count:
//
//	Units that count until t must be sent by t - per.
//
// Proof: let a call be sent at d. The upstream counts it until d + per, and so does the
// ledger. So the ledger counts all that the upstream counts at any instant, and the
// ledger's count is never over the limit.
//
// [window.Spec.Slack] gives the slack of one window. A calendar counts units in their
// period, however late they are sent. holdEnds ends a hold before the period does. The
// slack is at most [window.MaxSlack]: so a hold asks the store at least once a minute, and a
// page that is laid out again knows for how long units may still be sent.
//
// If units are taken again, the new ones begin to count before the old ones end, and the
// old ones are never sent. So the ledger counts, at all times, what the upstream counts
// and what the hold may still send. This needs old units that still count. Therefore a
// hold ends with its shortest sliding window.
//
// Units that were settled up, adjusted or admitted in an outage may pass a limit, here
// as everywhere. The time that a call is in flight is not covered, as with any
// reservation.
func slack(at time.Time, charges []Charge) time.Duration {
	least := window.MaxSlack
	for i := range charges {
		for _, w := range charges[i].Windows {
			least = min(least, w.Spec.Slack(window.At(at)))
		}
	}
	return least
}

// elapsed returns how long ago an instant was, by the wall clock or the monotonic clock,
// whichever is longer. The wall clock may be set back, and the monotonic clock may stop
// while a machine sleeps.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// holdEnds returns when a hold made now ends. If a boundary is so near that the hold would
// end before it began, it returns a refusal until after the boundary.
func holdEnds(clock time.Time, charges []Charge) (time.Time, error) {
	now := window.At(clock)
	ends := now.Add(maxHold)
	for i := range charges {
		for _, w := range charges[i].Windows {
			if !w.Spec.Calendar() {
				if w.Spec.Drains() {
					return time.Time{}, BadInput("hold %s: its window of %s drains what is held before it is sent; reserve each call by itself",
						charges[i].Pool, w.Name)
				}
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

// afterBoundaries moves the retry time of a refusal until a hold made then would not end
// before it began.
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
