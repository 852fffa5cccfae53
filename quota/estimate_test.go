package quota_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const estimated = `
revision: 1
upstreams:
  model:
    classes: {backfill: {keep_free: 50%}}
    pools:
      requests: {quota: 10, windows: [{per: 10m}]}
      tokens: {quota: 8000, windows: [{per: 10m}, {per: 24h, quota: 20000}]}
      late: {quota: 8000, windows: [{per: 10m, algorithm: log}]}
    methods:
      ask: {charge: {requests: 1, tokens: {estimate: {body: max, default: 9000}, actual: {body: used}}}}
      tail: {charge: {requests: 1, late: {estimate: 100, actual: {body: used}, counted: end}}}
families:
  client: {windows: [{per: 1m, quota: 10}]}
`

func estimatedLedger(t *testing.T) (*quota.Ledger, *quota.SimClock) {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(estimated), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	l, err := quota.New(b, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l, clock
}

func TestEstimate(t *testing.T) {
	for name, c := range map[string]struct {
		call quota.Call
		want quota.Units
		err  error
	}{
		"none: the default, up to the limit": {quota.Call{Method: "ask"}, quota.Units{"requests": 1, "tokens": 8000}, nil},
		"it replaces the method's units":     {quota.Call{Method: "ask", Estimate: quota.Units{"tokens": 12}}, quota.Units{"requests": 1, "tokens": 12}, nil},
		"nothing":                            {quota.Call{Method: "ask", Estimate: quota.Units{"tokens": 0}}, quota.Units{"requests": 1, "tokens": 0}, nil},
		"up to the smallest limit":           {quota.Call{Method: "ask", Estimate: quota.Units{"tokens": 64000}}, quota.Units{"requests": 1, "tokens": 8000}, nil},
		"up to the limit of the class":       {quota.Call{Method: "ask", Class: "backfill", Estimate: quota.Units{"tokens": 64000}}, quota.Units{"requests": 1, "tokens": 4000}, nil},
		"of a fixed price":                   {quota.Call{Method: "ask", Estimate: quota.Units{"requests": 3}}, quota.Units{"requests": 3, "tokens": 8000}, nil},
		"another pool":                       {quota.Call{Method: "ask", Estimate: quota.Units{"late": 3}}, nil, quota.ErrBadInput},
		"negative":                           {quota.Call{Method: "ask", Estimate: quota.Units{"tokens": -1}}, nil, quota.ErrBadInput},
		"beside charges":                     {quota.Call{Charges: quota.Units{"tokens": 1}, Estimate: quota.Units{"tokens": 1}}, nil, quota.ErrBadInput},
		"a fixed price stays impossible":     {quota.Call{Charges: quota.Units{"tokens": 9000}}, nil, quota.ErrImpossible},
		"of a family":                        {quota.Call{Family: "client", Key: "k", Estimate: quota.Units{"client": 1}}, nil, quota.ErrBadInput},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := estimatedLedger(t)
			if c.call.Family == "" {
				c.call.Upstream = "model"
			}
			r, err := l.Reserve(t.Context(), c.call)
			if c.err != nil || err != nil {
				if !errors.Is(err, c.err) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				return
			}
			if got := r.Charges(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("reserved %v, want %v", got, c.want)
			}
		})
	}
}

// Check says what Reserve then says, and takes nothing.
func TestCheck(t *testing.T) {
	ask := quota.Call{Upstream: "model", Method: "ask", Estimate: quota.Units{"tokens": 3000}}
	l, clock := estimatedLedger(t)
	both := func(c quota.Call) error {
		t.Helper()
		v, checked := l.Check(t.Context(), c)
		r, err := l.Reserve(t.Context(), c)
		var a, b *quota.RefusedError
		switch {
		case errors.As(checked, &a) && errors.As(err, &b):
			a.ID, b.ID = "", ""
			if !reflect.DeepEqual(a, b) {
				t.Errorf("checked %+v, reserved %+v", a, b)
			}
		case checked != nil || err != nil:
			if checked == nil || err == nil || checked.Error() != err.Error() {
				t.Errorf("checked %v, reserved %v", checked, err)
			}
		case v.Pool != r.Pool || v.Used != r.Used || v.Remaining != r.Remaining || v.Window != r.Window || !v.Allowed:
			t.Errorf("checked %+v, reserved %+v", v, r.Verdict)
		}
		return err
	}
	for range 2 {
		if err := both(ask); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Minute)
	}
	if err := both(ask); !errors.Is(err, quota.ErrRefused) {
		t.Error(err)
	}
	for _, c := range []quota.Call{
		{Upstream: "model", Method: "aks"},
		{Upstream: "model", Charges: quota.Units{"tokens": 9000}},
		{Family: "client", Key: "k", Units: 7},
		{Family: "client", Key: "k", Units: 11},
		{Upstream: "model", Method: "tail", ID: "\x00"},
		{Upstream: "model", Method: "tail", Job: "\x00"},
	} {
		both(c)
	}
	if err := l.BlockFor(t.Context(), quota.Pool{Upstream: "model", Name: "late"}, time.Minute, "no"); err != nil {
		t.Fatal(err)
	}
	if err := both(quota.Call{Upstream: "model", Method: "tail"}); !errors.Is(err, quota.ErrBlocked) {
		t.Error(err)
	}
	usage, _ := l.View().Usage(t.Context(), "model", "")
	for range 5 {
		l.Check(t.Context(), ask)
		l.Check(t.Context(), quota.Call{Upstream: "model", Method: "ask", Estimate: quota.Units{"tokens": 1}})
	}
	if after, _ := l.View().Usage(t.Context(), "model", ""); !reflect.DeepEqual(usage, after) {
		t.Errorf("after checking %+v, before %+v", after, usage)
	}
	if _, err := (*quota.Ledger)(nil).Check(t.Context(), ask); !errors.Is(err, quota.ErrBadInput) {
		t.Error(err)
	}
}

// A call that the upstream counts when it ends moves there, once.
func TestSettleAtEnd(t *testing.T) {
	late := func(l *quota.Ledger) int64 {
		usage, err := l.View().Usage(t.Context(), "model", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range usage {
			if u.Pool.Name == "late" {
				return u.Windows[0].Used
			}
		}
		return -1
	}
	tail := quota.Call{Upstream: "model", Method: "tail", Job: "j"}
	t.Run("settled", func(t *testing.T) {
		l, clock := estimatedLedger(t)
		r, err := l.Reserve(t.Context(), tail)
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(6 * time.Minute)
		for range 2 {
			if _, err := r.Settle(t.Context(), quota.Units{"requests": 1, "late": 70}); err != nil {
				t.Fatal(err)
			}
		}
		if got := late(l); got != 70 {
			t.Errorf("%d are used, want 70", got)
		}
		clock.Advance(6 * time.Minute) // the start has left the window
		if got := late(l); got != 70 {
			t.Errorf("%d are used later, want 70", got)
		}
		clock.Advance(5 * time.Minute)
		if got := late(l); got != 0 {
			t.Errorf("%d are used at last, want 0", got)
		}
		spent, err := l.View().Spend(t.Context(), quota.SpendQuery{}, "pool", "job")
		if err != nil || len(spent) != 2 || spent[0].Units+spent[1].Units != 71 {
			t.Errorf("spent %+v, %v", spent, err)
		}
	})
	t.Run("released, and then settled", func(t *testing.T) {
		l, _ := estimatedLedger(t)
		r, _ := l.Reserve(t.Context(), tail)
		r.Release(t.Context())
		if s, err := r.Settle(t.Context(), quota.Units{"requests": 1, "late": 70}); err != nil || !s.Repeat || late(l) != 0 {
			t.Errorf("%+v, %v, %d used", s, err, late(l))
		}
	})
	t.Run("by its token, and then settled", func(t *testing.T) {
		l, clock := estimatedLedger(t)
		r, _ := l.Reserve(t.Context(), tail)
		clock.Advance(6 * time.Minute)
		first, err := l.Settle(t.Context(), r.Token(), quota.Units{"requests": 1, "late": 5})
		if err != nil || first.Back != 95 || late(l) != 5 {
			t.Errorf("%+v, %v, %d used", first, err, late(l))
		}
		first.Repeat = true
		if again, err := r.Settle(t.Context(), quota.Units{"requests": 1, "late": 5}); err != nil || again != first || late(l) != 5 {
			t.Errorf("%+v, %v, %d used", again, err, late(l))
		}
		clock.Advance(6 * time.Minute) // another process moved them, too
		if got := late(l); got != 5 {
			t.Errorf("%d are used when the start has left the window, want 5", got)
		}
	})
	t.Run("released by its token, and then settled", func(t *testing.T) {
		l, _ := estimatedLedger(t)
		r, _ := l.Reserve(t.Context(), tail)
		if _, err := l.Release(t.Context(), r.Token()); err != nil {
			t.Fatal(err)
		}
		if s, err := r.Settle(t.Context(), quota.Units{"requests": 1, "late": 5}); err != nil || !s.Repeat || late(l) != 0 {
			t.Errorf("%+v, %v, %d used", s, err, late(l))
		}
	})
	t.Run("after hours", func(t *testing.T) {
		l, clock := estimatedLedger(t)
		r, _ := l.Reserve(t.Context(), tail)
		for range 9 { // as often as the heartbeat does it by itself
			clock.Advance(quota.ReceiptLife / 3)
			l.Renew()
		}
		if s, err := r.Settle(t.Context(), quota.Units{"requests": 1, "late": 5}); err != nil || s.Charged != 5 || late(l) != 5 {
			t.Errorf("%+v, %v, %d used", s, err, late(l))
		}
		if l.OpenSlots() != 0 {
			t.Error("a settled reservation is still renewed")
		}
	})
	t.Run("units are missing", func(t *testing.T) {
		l, _ := estimatedLedger(t)
		r, _ := l.Reserve(t.Context(), tail)
		if _, err := r.Settle(t.Context(), quota.Units{"late": 70}); !errors.Is(err, quota.ErrBadInput) || late(l) != 100 {
			t.Errorf("%v, %d used", err, late(l))
		}
	})
}
