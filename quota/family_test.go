package quota_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

func TestFamilies(t *testing.T) {
	client := func(key string) quota.Call { return quota.Call{Family: "client", Key: key} }
	t.Run("charges are named after the family", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, client("203.0.113.7"))
		if diff := cmp.Diff(quota.Units{"client": 1}, r.Charges()); diff != "" {
			t.Error(diff)
		}
		for units, want := range map[string]string{"client": "takes no receipts", "": `the units of pool "client" are missing`} {
			_, err := r.Settle(t.Context(), quota.Units{units: 0})
			if !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), want) {
				t.Errorf("settle %q: %v, want %s", units, err, want)
			}
		}
	})
	granted := func(l *quota.Ledger, key string) (n int) {
		for range 10 {
			if _, err := l.Reserve(t.Context(), client(key)); err == nil {
				n++
			}
		}
		return n
	}
	t.Run("a page per key, overrides, and one page for too many", func(t *testing.T) {
		l, clock := newLedger(t)
		if n := granted(l, "a"); n != 3 {
			t.Errorf("a: %d", n)
		}
		if n := granted(l, "b"); n != 3 {
			t.Errorf("b: %d", n)
		}
		if n := granted(l, "c") + granted(l, "d"); n != 3 {
			t.Errorf("new keys beyond max_keys share one page, but got %d", n)
		}
		if n := granted(l, "vip"); n != 5 {
			t.Errorf("a key listed in the book has its own page and limit, but got %d", n)
		}
		clock.Advance(2 * time.Minute)
		if n := granted(l, "e"); n != 3 {
			t.Errorf("idle pages go first, but e got %d", n)
		}
	})
	t.Run("a key of the book's own does not keep idle ones alive", func(t *testing.T) {
		l, clock := newLedger(t)
		granted(l, "vip")
		granted(l, "a")
		clock.Advance(2 * time.Minute)
		granted(l, "vip")
		for _, key := range []string{"b", "c"} {
			if n := granted(l, key); n != 3 {
				t.Errorf("%s got %d", key, n)
			}
		}
	})
	t.Run("any bytes are a key", func(t *testing.T) {
		l, _ := newLedger(t)
		for _, key := range []string{strings.Repeat("k", 10_000), "\x00\xff"} {
			r, err := l.Reserve(t.Context(), client(key))
			if err != nil || len(r.Pool.Key) != 64 {
				t.Error(r, err)
			}
		}
	})
	t.Run("no key is the hash of another", func(t *testing.T) {
		l, _ := newLedger(t)
		r, err := l.Reserve(t.Context(), client(strings.Repeat("k", 100)))
		if err != nil {
			t.Fatal(err)
		}
		page := r.Pool.Key
		if r, err = l.Reserve(t.Context(), client(page)); err != nil || r.Pool.Key == page {
			t.Errorf("two keys share the page %s; %v", page, err)
		}
	})
	t.Run("more than the limit at once is impossible", func(t *testing.T) {
		l, _ := newLedger(t)
		c := client("a")
		c.Units = 4
		if _, err := l.Reserve(t.Context(), c); !errors.Is(err, quota.ErrImpossible) {
			t.Error(err)
		}
	})
}

// lastCharge is a store that notes what it was asked for last.
type lastCharge struct {
	quota.Store
	last quota.Charge
}

func (c *lastCharge) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	c.last = r.Charges[0]
	return c.Store.Reserve(ctx, r)
}

// A store hears how many keys a family may have with each call of it, also with one of a key with a limit of its own,
// and with no call of a pool. Redis finds the page by that.
func TestEachCallOfAFamilyTellsItsSize(t *testing.T) {
	store := &lastCharge{Store: memstore.New(nil)}
	l, err := quota.New(mustParse(t, testBook), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, calls := range map[int][]quota.Call{
		2: {{Family: "client", Key: "a"}, {Family: "client", Key: "vip"}},
		0: {{Upstream: "youtube", Method: "videos.list"}},
	} {
		for _, c := range calls {
			if must(t, l, c); store.last.FamilyKeys != want {
				t.Errorf("%+v: a family of %d keys, want %d", c, store.last.FamilyKeys, want)
			}
		}
	}
}

// limitedStore is a lastCharge that keeps limits, too.
type limitedStore struct {
	*memstore.Store
	last quota.Charge
}

func (s *limitedStore) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	s.last = r.Charges[0]
	return s.Store.Reserve(ctx, r)
}

// The blocks of a key are a part of its own limit, also of one that was set at run time. Its ring counts for the life
// of a block longer.
func TestLeaseOfAFamily(t *testing.T) {
	b := mustParse(t, `
revision: 1
families:
  client:
    quota: 1000
    windows: [{per: 1m}, {per: day}, {per: 10s, algorithm: counter}]
    keys: {vip: 200, own: {windows: [{per: 30s, quota: 60}]}}
    lease: {life: 3s, most: 10%}
  plain: {quota: 1000, windows: [{per: 1m}]}
`)
	store := &limitedStore{Store: memstore.New(nil)}
	l, err := quota.New(b, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: "acme", Quota: 5000, By: "test"}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]struct {
		lease quota.Lease
		late  time.Duration
	}{
		"anybody": {quota.Lease{Life: 3 * time.Second, Most: 100}, 3 * time.Second},
		"vip":     {quota.Lease{Life: 3 * time.Second, Most: 20}, 3 * time.Second},
		"own":     {quota.Lease{Life: 3 * time.Second, Most: 6}, 3 * time.Second},
		"acme":    {quota.Lease{Life: 3 * time.Second, Most: 500}, 3 * time.Second},
		"plain":   {},
	} {
		family := "client"
		if key == "plain" {
			family = key
		}
		must(t, l, quota.Call{Family: family, Key: key})
		if c := store.last; c.Lease != want.lease || c.Windows[0].Spec.Late != want.late {
			t.Errorf("%s: %+v and a ring that is %s late, want %+v and %s", key, c.Lease, c.Windows[0].Spec.Late, want.lease, want.late)
		}
	}
}
