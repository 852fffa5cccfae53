package quota_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// without is a store that has forgotten pools.
type without struct {
	quota.Store
	names []string
}

func (f *without) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	for _, c := range charges {
		if slices.Contains(f.names, c.Pool.Name) {
			return nil, &quota.ForgottenError{Pool: c.Pool, Born: time.Unix(1e9, 0)}
		}
	}
	return f.Store.Look(ctx, charges)
}

// TestForgottenPoolsHideNoOther: the usage of pools that the ledger knows is told beside the error of those
// that it has forgotten.
func TestForgottenPoolsHideNoOther(t *testing.T) {
	for _, test := range []struct{ forgotten, known []string }{
		{nil, []string{"a", "b", "c"}},
		{[]string{"b"}, []string{"a", "c"}},
		{[]string{"c", "a"}, []string{"b"}},
		{[]string{"a", "b", "c"}, nil},
	} {
		store := &without{memstore.New(nil), test.forgotten}
		l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  api:
    pools: {a: {windows: [{per: 1m, quota: 5}]}, b: {windows: [{per: 1m, quota: 5}]}, c: {windows: [{per: 1m, quota: 5}]}}
    methods: {get: {charge: {a: 1, b: 1, c: 1}}}
`), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := l.View().Usage(t.Context(), "", "")
		var known []string
		for _, u := range all {
			known = append(known, u.Pool.Name)
		}
		lost, failed := l.View().Forgotten(t.Context())
		var names []string
		for _, f := range lost {
			names = append(names, f.Pool.Name)
		}
		want := slices.Sorted(slices.Values(test.forgotten))
		if failed != nil || !slices.Equal(known, test.known) || !slices.Equal(names, want) {
			t.Errorf("forgotten %q: knows %q, has forgotten %q, %v", test.forgotten, known, names, failed)
		}
		f, ok := errors.AsType[*quota.ForgottenError](err)
		if ok != (len(want) > 0) || ok && (f.Pool.Name != want[0] || !errors.Is(err, quota.ErrOutage)) || !ok && err != nil {
			t.Errorf("forgotten %q: %v", test.forgotten, err)
		}
	}
}

// identified is a store of which its ledger's identity is known.
type identified struct{ quota.Store }

func (identified) Identity(context.Context, string, string) (string, error) { return "this", nil }

// left is a journal with entries.
type left struct {
	quota.Journal
	entries []quota.Entry
}

func (l left) Pending(context.Context) ([]quota.Entry, error) { return l.entries, nil }

// Strays are the calls that were admitted for another ledger at the same address.
func TestStrays(t *testing.T) {
	var j left
	for _, identity := range []string{"this", "", "another"} {
		j.entries = append(j.entries, quota.Entry{ID: "of " + identity, Identity: identity, Charges: []quota.EntryCharge{{Pool: quota.Pool{Upstream: "youtube"}}}})
	}
	l, err := quota.New(mustParse(t, testBook), identified{memstore.New(nil)}, &quota.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	strays, err := l.View().Strays(t.Context())
	if err != nil || len(strays) != 1 || strays[0].ID != "of another" {
		t.Errorf("%+v, %v, want the call of another ledger", strays, err)
	}
}
