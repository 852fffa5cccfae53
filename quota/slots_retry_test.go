package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// retry returns when a refused call is told to come again.
func (r *slotRig) retry(l *quota.Ledger) time.Duration {
	r.Helper()
	_, err := l.Reserve(r.Context(), r.enter)
	var refused *quota.RefusedError
	if !errors.As(err, &refused) {
		r.Fatalf("%v, want a refusal", err)
	}
	if after := refused.RetryAt.Sub(refused.At); after != refused.RetryAfter {
		r.Errorf("retry after %s, but at a time that is %s away", refused.RetryAfter, after)
	}
	return refused.RetryAfter
}

// A process tells a call that lacks a slot how long recent calls had theirs, and never more
// than what the store says: a slot comes back after its ttl even if its process has crashed.
func TestRetryAfterOfAFullPoolIsWhatCallsTook(t *testing.T) {
	inBubble(t, func(r *slotRig) {
		for _, calls := range []struct {
			many     int // pairs of calls, all but the last one of the row before
			took     time.Duration
			min, max time.Duration // that the next pair's refusal may say
		}{
			{1, time.Second, time.Minute, time.Minute}, // nothing is known yet
			{1, time.Second, time.Second, time.Second},
			{40, 100 * time.Millisecond, time.Second, time.Second},
			{1, 0, 100 * time.Millisecond, 110 * time.Millisecond}, // it follows what calls take
			{40, 0, 70 * time.Millisecond, 90 * time.Millisecond},
			{1, 3 * time.Minute, 25 * time.Millisecond, 25 * time.Millisecond}, // but says no nonsense
			{40, 3 * time.Minute, 40 * time.Second, time.Minute},
			{1, 0, time.Minute, time.Minute}, // the slots are renewed, so the store says a minute
		} {
			for i := range calls.many {
				one, two := must(r, r.a, r.enter), must(r, r.a, r.enter)
				if got := r.retry(r.a); i == 0 && (got < calls.min || got > calls.max) {
					r.Errorf("before calls of %s: retry after %s, want %s to %s", calls.took, got, calls.min, calls.max)
				}
				time.Sleep(calls.took)
				r.done(one, two)
			}
		}
		one, two := must(r, r.b, r.enter), must(r, r.b, r.enter)
		if got := r.retry(r.b); got != time.Minute { // each process knows its own calls
			r.Errorf("in a process without calls: retry after %s, want the ttl", got)
		}
		r.done(one, two)
	})
}
