package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// agree compares Check with the Reserve that follows it, and returns its error.
func agree(t *testing.T, l *quota.Ledger, c quota.Call) error {
	t.Helper()
	v, checked := l.Check(t.Context(), c)
	r, err := l.Reserve(t.Context(), c)
	switch {
	case (checked == nil) != (err == nil), err != nil && checked.Error() != err.Error():
		t.Errorf("checked %v, reserved %v", checked, err)
	case err == nil && (!v.Allowed || v.Pool != r.Pool || v.Units != r.Units):
		t.Errorf("checked %+v, reserved %+v", v, r.Verdict)
	}
	return err
}

func TestCheckOfAnObservedUpstream(t *testing.T) {
	l, _, events := observing(t, observedBook, nil)
	for _, method := range []string{"a", "a", "a", "dear", "none"} {
		if err := agree(t, l, quota.Call{Method: method}); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := l.BlockFor(t.Context(), quota.Pool{Upstream: "api", Name: "units"}, time.Minute, "no"); err != nil {
		t.Fatal(err)
	}
	if err := agree(t, l, quota.Call{Method: "a"}); err != nil {
		t.Error(err)
	}
	if err := agree(t, l, quota.Call{Charges: quota.Units{"units": 11}}); err != nil {
		t.Error(err)
	}
	before := len(*events)
	if _, err := l.Check(t.Context(), quota.Call{Method: "a"}); err != nil || len(*events) != before {
		t.Errorf("%v, events %+v", err, (*events)[before:])
	}
	l, _, _ = observing(t, observedBook, downStore{memstore.New(nil)})
	if err := agree(t, l, quota.Call{Method: "a"}); err != nil {
		t.Errorf("in an outage: %v", err)
	}
}

func TestCheckKnowsWhatAnswersReported(t *testing.T) {
	h := newHub(t, 1)
	l, get := h.ledger[0], quota.Call{Method: "get"}
	if _, err := l.Observe(t.Context(), quota.Observation{Pool: poolOf("core"), Limit: 2, ResetIn: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var refused *quota.RefusedError
	for range 2 {
		if err := agree(t, l, get); err != nil {
			t.Fatal(err)
		}
	}
	if err := agree(t, l, get); !errors.As(err, &refused) || refused.Limit != 2 {
		t.Errorf("a lowered limit: %v", err)
	}
	h = newHub(t, 1)
	l = h.ledger[0]
	h.reserve(0, "get")
	h.hear(0, "core", 0, noon.Add(time.Hour))
	if err := agree(t, l, get); !errors.As(err, &refused) || refused.Used != 5000 {
		t.Errorf("others: %v", err)
	}
}

func TestCheckOfSlots(t *testing.T) {
	inBubble(t, func(r *slotRig) {
		for range 2 {
			one := must(t, r.a, r.enter)
			defer func() { _ = one.Done(t.Context()) }()
		}
		if err := agree(t, r.a, r.ask); !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
}
