package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// lowered is a ledger whose upstream has reported a lower limit of a pool, for an hour.
func lowered(t *testing.T, pool string, limit int64) *hub {
	h := newHub(t, 1)
	if _, err := h.ledger[0].Observe(t.Context(), quota.Observation{Pool: poolOf(pool), Limit: limit, Reset: noon.Add(time.Hour), Date: noon}); err != nil {
		t.Fatal(err)
	}
	return h
}

// A limit that the upstream has lowered comes back, so it makes nothing impossible.
func TestALoweredLimitMakesNothingImpossible(t *testing.T) {
	h := lowered(t, "large", 5) // less than the headroom, of which the same share stays free
	call := quota.Call{Charges: quota.Units{"large": 5}}
	_, err := h.ledger[0].Reserve(t.Context(), call)
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter != time.Hour || !refused.RetryAt.Equal(noon.Add(time.Hour)) || refused.Limit != 4 {
		t.Fatalf("error %v", err)
	}
	h.clock.Advance(refused.RetryAfter - time.Second)
	if _, err := h.ledger[0].Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("before: %v", err)
	}
	h.clock.Advance(time.Second)
	must(t, h.ledger[0], call)
	t.Run("what is impossible anyway stays so", func(t *testing.T) {
		h := lowered(t, "core", 100)
		for _, c := range []struct {
			units int64
			err   error
		}{{101, quota.ErrRefused}, {5001, quota.ErrImpossible}} {
			if _, err := h.ledger[0].Reserve(t.Context(), quota.Call{Charges: quota.Units{"core": c.units}}); !errors.Is(err, c.err) {
				t.Errorf("%d units: %v", c.units, err)
			}
		}
	})
}

// An estimate asks for no more than a lowered limit, as for no more than the book's.
func TestAnEstimateIsCappedAtALoweredLimit(t *testing.T) {
	h := lowered(t, "core", 100)
	r, err := h.ledger[0].Reserve(t.Context(), quota.Call{Method: "get", Estimate: quota.Units{"core": 4000}})
	if err != nil || r.Charges()["core"] != 100 {
		t.Fatalf("%v, %v", r.Charges(), err)
	}
	if s, err := r.Settle(t.Context(), quota.Units{"core": 30}); err != nil || s.Back != 70 {
		t.Errorf("%+v, %v", s, err)
	}
	h.counts("core", 30)
}

// A reset that nobody can mean is as if it were missing.
func TestAResetThatIsTooFarOff(t *testing.T) {
	for _, reset := range []time.Time{noon.AddDate(5, 0, 0), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		h := newHub(t, 1)
		if _, err := h.ledger[0].Observe(t.Context(), quota.Observation{Pool: poolOf("core"), Limit: 1, Reset: reset}); err != nil {
			t.Fatal(err)
		}
		h.reserve(0, "get")
		if _, err := h.ledger[0].Reserve(t.Context(), quota.Call{Method: "get"}); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("%s: %v", reset, err)
		}
		h.clock.Advance(time.Hour + 11*time.Minute)
		h.reserve(0, "get")
		h.reserve(0, "get")
	}
}

// A percentage is one of the upstream's limit. More than all of it is all of it.
func TestThePercentageOfAnotherLimit(t *testing.T) {
	for _, c := range []struct{ limit, percent, want int64 }{{1000, 50, 500}, {1000, 150, 1000}, {0, 50, 2500}, {5000, 1, 50}, {10000, 40, 0}, {10000, 90, 4000}} {
		h := newHub(t, 1)
		_, err := h.ledger[0].Observe(t.Context(), quota.Observation{Pool: poolOf("core"), Limit: c.limit, UsedPercent: &c.percent, ResetIn: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		h.counts("core", c.want)
	}
}
