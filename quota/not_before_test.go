package quota_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// questions counts the reservations that reach a store.
type questions struct {
	quota.Store
	asked int
}

func (s *questions) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	s.asked++
	return s.Store.Reserve(ctx, r)
}

// notBefore is a ledger of a pool of 10 units an hour, of a family of 10 a minute, and of
// slots, and another ledger in the same store.
func notBefore(t *testing.T, o quota.Options) (l, other *quota.Ledger, s *questions, clock *quota.SimClock) {
	t.Helper()
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    pools:
      units: {quota: 10, windows: [{per: 1h}]}
      flight: {windows: [{in_flight: 1, ttl: 1m}]}
    methods: {get: {pool: units, cost: 1}, both: {charge: {units: 1, flight: 1}}}
families: {client: {quota: 10, windows: [{per: 1m}]}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock = quota.NewSimClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	s = &questions{Store: memstore.New(&memstore.Options{Clock: clock})}
	o.Clock = clock
	if l, err = quota.New(costs, s, &o); err != nil {
		t.Fatal(err)
	}
	if other, err = quota.New(costs, s.Store, &quota.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	return l, other, s, clock
}

func TestNotBefore(t *testing.T) {
	ctx := context.Background()
	api := func(units int64) quota.Call { return quota.Call{Upstream: "api", Charges: quota.Units{"units": units}} }
	member := func(units int64) quota.Call { return quota.Call{Family: "client", Key: "a", Units: units} }
	named := func(c quota.Call) quota.Call {
		c.ID = "one"
		return c
	}
	pool := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
	type step struct {
		what  string
		do    func(l, other *quota.Ledger, clock *quota.SimClock)
		call  quota.Call
		asks  int // how often the store is asked
		grant bool
	}
	settle := func(r **quota.Reservation) {
		if _, err := (*r).Settle(ctx, quota.Units{"units": 1}); err != nil {
			t.Fatal(err)
		}
	}
	var r, theirs *quota.Reservation
	later := func(d time.Duration) func(_, _ *quota.Ledger, clock *quota.SimClock) {
		return func(_, _ *quota.Ledger, clock *quota.SimClock) { clock.Advance(d) }
	}
	full := step{"all there is", nil, api(6), 1, true}
	for name, test := range map[string]struct {
		options quota.Options
		steps   []step
	}{
		"the same and heavier calls": {quota.Options{NotBefore: time.Minute}, []step{
			full,
			{"more", nil, api(5), 1, false},
			{"again", nil, api(5), 0, false},
			{"heavier", nil, api(7), 0, false},
			{"lighter", nil, api(4), 1, true},
			{"too much for ever", nil, api(11), 0, false},
		}},
		"not a retry of a grant": {quota.Options{NotBefore: time.Minute}, []step{
			{"all there is", nil, named(api(6)), 1, true},
			{"more", nil, api(5), 1, false},
			{"the first again", nil, named(api(6)), 1, true},
		}},
		"until it fits": {quota.Options{NotBefore: 5 * time.Hour}, []step{
			full,
			{"more", nil, api(5), 1, false},
			{"later", later(60 * time.Minute), api(5), 0, false},
			{"then", later(time.Minute), api(5), 1, true},
		}},
		"for so long": {quota.Options{NotBefore: time.Minute}, []step{
			full,
			{"more", nil, api(5), 1, false},
			{"later", later(time.Minute - time.Second), api(5), 0, false},
			{"then", later(time.Second), api(5), 1, false},
		}},
		"until units came back": {quota.Options{NotBefore: time.Minute}, []step{
			full,
			{"more", nil, api(5), 1, false},
			{"after settling", func(l, _ *quota.Ledger, _ *quota.SimClock) { settle(&r) }, api(5), 1, true},
			{"more", nil, api(6), 1, false},
			{"after an adjustment", func(l, _ *quota.Ledger, _ *quota.SimClock) {
				if _, err := l.Admin().Adjust(ctx, pool, -6, "a test"); err != nil {
					t.Fatal(err)
				}
			}, api(6), 1, true},
		}},
		"what others give back is noticed": {quota.Options{NotBefore: time.Minute}, []step{
			{"theirs", func(_, other *quota.Ledger, _ *quota.SimClock) {
				var err error
				if theirs, err = other.Reserve(ctx, api(10)); err != nil {
					t.Fatal(err)
				}
			}, api(5), 1, false},
			{"before", func(_, other *quota.Ledger, _ *quota.SimClock) { settle(&theirs) }, api(5), 0, false},
			{"after a minute", later(time.Minute), api(5), 1, true},
		}},
		"an unblock counts at once": {quota.Options{NotBefore: time.Hour}, []step{
			{"blocked", func(_, other *quota.Ledger, _ *quota.SimClock) {
				if err := other.BlockFor(ctx, pool, time.Hour, "no"); err != nil {
					t.Fatal(err)
				}
			}, api(5), 1, false},
			{"still", nil, api(5), 1, false},
			{"open", func(_, other *quota.Ledger, _ *quota.SimClock) {
				if err := other.Admin().Unblock(ctx, pool); err != nil {
					t.Fatal(err)
				}
			}, api(5), 1, true},
		}},
		"slots are asked for each time": {quota.Options{NotBefore: time.Minute}, []step{
			{"in flight", nil, quota.Call{Upstream: "api", Method: "both"}, 1, true},
			{"another", nil, quota.Call{Upstream: "api", Method: "both"}, 1, false},
			{"again", nil, quota.Call{Upstream: "api", Method: "both"}, 1, false},
		}},
		"pools are asked each time": {quota.Options{}, []step{full, {"more", nil, api(5), 1, false}, {"again", nil, api(5), 1, false}}},
		"members are not": {quota.Options{}, []step{
			{"all there is", nil, member(6), 1, true},
			{"more", nil, member(5), 1, false},
			{"again", nil, member(5), 0, false},
			{"heavier, whose time is another one", nil, member(7), 1, false},
			{"again", nil, member(7), 0, false},
			{"later", later(time.Second), member(5), 1, false},
			{"again", nil, member(5), 0, false},
			{"another key", nil, quota.Call{Family: "client", Key: "b", Units: 5}, 1, true},
		}},
		"unless asked to": {quota.Options{NotBefore: -1}, []step{
			{"all there is", nil, member(6), 1, true}, {"more", nil, member(5), 1, false}, {"again", nil, member(5), 1, false},
		}},
		"a retry of a call looks for its receipt": {quota.Options{NotBefore: time.Hour}, []step{
			{"a call", nil, quota.Call{Upstream: "api", Charges: quota.Units{"units": 6}, ID: "a"}, 1, true},
			{"more", nil, api(6), 1, false},
			{"the call again", nil, quota.Call{Upstream: "api", Charges: quota.Units{"units": 6}, ID: "a"}, 1, true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, other, s, clock := notBefore(t, test.options)
			for _, step := range test.steps {
				if step.do != nil {
					step.do(l, other, clock)
				}
				s.asked = 0
				got, err := l.Reserve(ctx, step.call)
				if (err == nil) != step.grant || s.asked != step.asks {
					t.Fatalf("%s: %v, with %d questions; want %d", step.what, err, s.asked, step.asks)
				}
				if err == nil {
					r = got
					continue
				}
				var refused *quota.RefusedError
				units := step.call.Units + step.call.Charges["units"]
				if units == 0 {
					units = 1
				}
				if units > 10 {
					if !errors.Is(err, quota.ErrImpossible) {
						t.Errorf("%s: %v, want that it is impossible", step.what, err)
					}
				} else if !errors.As(err, &refused) || refused.RetryAfter <= 0 || !refused.RetryAt.Equal(clock.Now().Add(refused.RetryAfter)) || refused.Units != units {
					t.Errorf("%s at %s: %+v", step.what, clock.Now(), err)
				}
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		l, _, s, _ := notBefore(t, quota.Options{})
		for i := range 10_000 {
			c := quota.Call{Family: "client", Key: fmt.Sprint("key", i), Units: 10}
			if _, err := l.Reserve(ctx, c); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Reserve(ctx, c); !errors.Is(err, quota.ErrRefused) {
				t.Fatal(err)
			}
		}
		if n := quota.Refusals(l); n > 4096 || n == 0 || s.asked != 20_000 {
			t.Errorf("%d refusals are remembered after %d questions", n, s.asked)
		}
	})
}

// Refusals of many members are remembered side by side.
func TestRefusalsOfManyMembers(t *testing.T) {
	l, _, s, _ := notBefore(t, quota.Options{})
	ask := func(key string, units int64) error {
		_, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: key, Units: units})
		return err
	}
	for _, key := range []string{"a", "b", "c"} {
		if err := ask(key, 10); err != nil {
			t.Fatal(err)
		}
		if err := ask(key, 1); !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
	}
	asked := s.asked
	for _, key := range []string{"a", "b", "c"} {
		if err := ask(key, 1); !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	}
	if s.asked != asked {
		t.Errorf("the store was asked %d times for what it had refused", s.asked-asked)
	}
}
