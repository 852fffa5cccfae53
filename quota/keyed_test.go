package quota_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

const keyedBook = `
revision: 1
upstreams:
  llm:
    accounts: {default: {}, staging: {}}
    classes: {backfill: {keep_free: 50%}}
    pools:
      requests: {quota: 100000, windows: [{per: 1m}]}
      tokens: {quota: 1000, windows: [{per: 1m}], by: {body: model, default: other}, max_keys: 3, keys: {large: 5000, small: {quota: 10, windows: [{per: 1h}]}}}
      users: {quota: 5, windows: [{per: 1m}], by: {query: user}}
    methods:
      ask: {charge: {requests: 1, tokens: 600}, outage: admit}
      list: {charge: {requests: 1, users: 1}}
      ping: {pool: requests, cost: 1}
`

// keyedRig is a ledger with keyed pools.
type keyedRig struct {
	*testing.T
	*quota.Ledger
	clock *quota.SimClock
}

func newKeyedRig(t *testing.T) *keyedRig {
	return keyedLedger(t, func(c quota.Clock) quota.Store { return memstore.New(&memstore.Options{Clock: c}) })
}

func keyedLedger(t *testing.T, store func(quota.Clock) quota.Store) *keyedRig {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(keyedBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := quota.NewSimClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	l, err := quota.New(b, store(clock), &quota.Options{Clock: clock, Journal: j, Allowance: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return &keyedRig{t, l, clock}
}

func askModel(model string) quota.Call {
	return quota.Call{Method: "ask", Keys: map[string]string{"tokens": model}}
}

func tokensOf(model string) quota.Pool {
	return quota.Pool{Upstream: "llm", Account: "default", Name: "tokens", Key: model}
}

// used returns what the first window of each page of the pool tokens has used, fullest
// first.
func (r *keyedRig) used() string {
	r.Helper()
	all, err := r.View().Usage(r.Context(), "llm", "default")
	if err != nil {
		r.Fatal(err)
	}
	var said []string
	for _, u := range all {
		if u.Pool.Name == "tokens" {
			said = append(said, fmt.Sprintf("%s %d of %d", u.Pool.Key, u.Allowances[0].Used, u.Allowances[0].Quota))
		}
	}
	return strings.Join(said, ", ")
}

func (r *keyedRig) reserve(c quota.Call) *quota.Reservation {
	r.Helper()
	got, err := r.Reserve(r.Context(), c)
	if err != nil {
		r.Fatal(err)
	}
	return got
}

func TestEachKeyOfAPoolHasItsOwnPage(t *testing.T) {
	r := newKeyedRig(t)
	if got := r.used(); got != " 0 of 1000" {
		t.Errorf("before any call: %s", got)
	}
	a := r.reserve(askModel("a"))
	if got := a.Charges(); got["tokens"] != 600 || got["requests"] != 1 || a.Pool.Key != "a" {
		t.Errorf("charged %v, tightest %s", got, a.Pool)
	}
	_, err := r.Reserve(t.Context(), askModel("a"))
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || refused.Pool != tokensOf("a") || !strings.Contains(err.Error(), "llm/tokens:a") {
		t.Errorf("the second call of a: %v, want a refusal that names the key", err)
	}
	r.reserve(askModel("b"))
	for range 8 {
		r.reserve(askModel("large")) // 5,000
	}
	r.reserve(askModel("")) // the default
	if got, want := r.used(), "large 4800 of 5000, a 600 of 1000, b 600 of 1000, other 600 of 1000"; !sameWords(got, want) {
		t.Errorf("used %s, want %s", got, want)
	}
	if s, err := a.Settle(t.Context(), quota.Units{"requests": 1, "tokens": 100}); err != nil || s.Back != 500 {
		t.Errorf("settled: %+v %v", s, err)
	}
	shared := r.reserve(askModel("one too many"))
	if !shared.Overflow {
		t.Errorf("a fourth key: %+v, want a shared page", shared.Verdict)
	}
	spent, err := r.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByPool)
	if err != nil || len(spent) != 2 {
		t.Fatalf("spent %v %v, want it by pool", spent, err)
	}
	for _, s := range spent {
		if want := map[string]int64{"requests": 12, "tokens": 12*600 - 500}[s.Pool.Name]; s.Units != want || s.Pool.Key != "" {
			t.Errorf("spent %+v, want %d", s, want)
		}
	}
}

// A page that was idle may be gone when a call of its key turns out to have cost more. The
// units then count where the next call of the key counts.
func TestSettlingUpAKeyWithoutAPage(t *testing.T) {
	settleUp := func(t *testing.T, meanwhile func(r *keyedRig)) *keyedRig {
		r := newKeyedRig(t)
		late := r.reserve(askModel("a"))
		r.clock.Advance(2 * time.Minute)
		meanwhile(r)
		s, err := late.Settle(t.Context(), quota.Units{"requests": 3, "tokens": 750})
		if err != nil || s.Charged != 2+150 {
			t.Errorf("settled: %+v, %v", s, err)
		}
		if s, err := late.Settle(t.Context(), quota.Units{"requests": 3, "tokens": 900}); err != nil || !s.Repeat {
			t.Errorf("settled again: %+v, %v", s, err)
		}
		return r
	}
	three := func(r *keyedRig) {
		for _, key := range []string{"b", "c", "d"} {
			r.reserve(askModel(key))
		}
	}
	t.Run("that gets one", func(t *testing.T) {
		r := settleUp(t, func(r *keyedRig) { three(r); r.clock.Advance(2 * time.Minute) })
		if got := r.used(); !strings.Contains(got, "a 150 of 1000") {
			t.Errorf("used %s", got)
		}
		spent, err := r.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByPool, quota.ByMethod)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spent {
			if want := map[string]int64{"requests": 3 + 3, "tokens": 750 + 3*600}[s.Pool.Name]; s.Units != want || s.Labels.Method != "ask" {
				t.Errorf("spent %+v, want %d", s, want)
			}
		}
	})
	t.Run("that shares one", func(t *testing.T) {
		r := settleUp(t, three)
		if got := r.reserve(askModel("e")); !got.Overflow || got.Used != 750 {
			t.Errorf("%+v, want 750 used of the shared page", got.Verdict)
		}
	})
	t.Run("that still has one", func(t *testing.T) {
		r := settleUp(t, func(*keyedRig) {})
		if got := r.used(); !strings.Contains(got, "a 150 of 1000") {
			t.Errorf("used %s", got)
		}
	})
}

// Usage is sorted by name, whether or not its pools have keys.
func TestKeyedPoolsInOrder(t *testing.T) {
	r := newKeyedRig(t)
	for _, user := range []string{"u2", "u1"} {
		must(t, r.Ledger, quota.Call{Method: "list", Keys: map[string]string{"users": user}})
	}
	r.reserve(askModel("large"))
	for range 20 {
		all, err := r.View().Usage(t.Context(), "llm", "default")
		if err != nil || !slices.IsSortedFunc(all, func(a, b quota.Usage) int { return strings.Compare(a.Pool.Name, b.Pool.Name) }) {
			t.Fatalf("%v, %v", all, err)
		}
	}
}

// sameWords reports whether two lists have the same first item, and the same items.
func sameWords(a, b string) bool {
	x, y := strings.Split(a, ", "), strings.Split(b, ", ")
	if len(x) != len(y) || x[0] != y[0] {
		return false
	}
	for _, item := range x {
		if !strings.Contains(b, item) {
			return false
		}
	}
	return true
}

func TestKeysOfACallAreChecked(t *testing.T) {
	r := newKeyedRig(t)
	for name, test := range map[string]struct {
		call quota.Call
		want error
		text string
	}{
		"no key and no default":    {quota.Call{Method: "list"}, quota.ErrBadInput, "names no key"},
		"a pool without keys":      {quota.Call{Method: "ping", Keys: map[string]string{"requests": "a"}}, quota.ErrBadInput, "has no keys"},
		"no such pool":             {quota.Call{Method: "ask", Keys: map[string]string{"token": "a"}}, quota.ErrBadInput, "has no keys"},
		"no key of charges":        {quota.Call{Charges: quota.Units{"users": 1}}, quota.ErrBadInput, "names no key"},
		"a key that is too small":  {askModel("small"), quota.ErrImpossible, "tokens:small"},
		"a class that leaves more": {quota.Call{Method: "ask", Class: "backfill", Keys: map[string]string{"tokens": "a"}}, quota.ErrImpossible, "tokens:a"},
	} {
		_, err := r.Reserve(t.Context(), test.call)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v, want %v with %q", name, err, test.want, test.text)
		}
	}
	if _, err := r.Reserve(t.Context(), quota.Call{Method: "ask", Class: "backfill", Keys: map[string]string{"tokens": "large"}}); err != nil {
		t.Errorf("a class, of a key with room: %v", err)
	}
	long := strings.Repeat("k", 1000)
	if v := r.reserve(askModel(long)); len(v.Pool.Key) != 64 {
		t.Errorf("a key of 1,000 bytes has the page %q, want its hash", v.Pool.Key)
	}
	if got := r.reserve(quota.Call{Charges: quota.Units{"tokens": 5}, Keys: map[string]string{"tokens": long}}); got.Used != 605 {
		t.Errorf("the same key again has used %d, want 605", got.Used)
	}
}

func TestBlockOfAKey(t *testing.T) {
	r := newKeyedRig(t)
	ctx := t.Context()
	if err := r.BlockFor(ctx, tokensOf("a"), time.Hour, "the model is down"); err != nil {
		t.Fatal(err)
	}
	_, err := r.Reserve(ctx, askModel("a"))
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || !refused.Blocked || refused.Reason != "the model is down" || refused.Pool != tokensOf("a") {
		t.Errorf("the blocked key: %v", err)
	}
	r.reserve(askModel("b"))
	if err := r.Admin().Unblock(ctx, tokensOf("a")); err != nil {
		t.Fatal(err)
	}
	r.reserve(askModel("a"))
	if err := r.BlockFor(ctx, tokensOf(""), time.Hour, "no"); !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "llm/tokens:KEY") {
		t.Errorf("a block of no key: %v, want bad input that says how", err)
	}
	if units, err := r.Admin().Adjust(ctx, tokensOf("b"), -10_000, "it was wrong"); err != nil || units != -600 {
		t.Errorf("adjusted by %d, %v, want -600", units, err)
	}
	if _, err := r.Admin().Adjust(ctx, quota.Pool{Upstream: "llm", Name: "requests", Key: "b"}, 1, "no"); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("a key of a plain pool: %v", err)
	}
}

// A hold holds the keys of its call. Calls of other keys reserve for themselves.
func TestHoldOfAKey(t *testing.T) {
	r := newKeyedRig(t)
	ctx := t.Context()
	h, err := r.Hold(ctx, askModel("large"), 3)
	if err != nil {
		t.Fatal(err)
	}
	with := h.Context(ctx)
	for _, model := range []string{"large", "a", "large"} {
		if _, err := r.Reserve(with, askModel(model)); err != nil {
			t.Fatal(err)
		}
	}
	if left := h.Left(); left["tokens"] != 600 || left["requests"] != 1 {
		t.Errorf("left %v, want a call of 600", left)
	}
	if err := h.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := r.used(), "a 600 of 1000, large 1200 of 5000"; got != want {
		t.Errorf("used %s, want %s", got, want)
	}
}

// Calls that were admitted in an outage are charged to their keys after it. All keys of a
// pool share its allowance, because a machine must not get one for each key.
func TestOutageOfAKeyedPool(t *testing.T) {
	down := &unreachable{}
	r := keyedLedger(t, func(c quota.Clock) quota.Store {
		down.Store = memstore.New(&memstore.Options{Clock: c})
		return down
	})
	ctx := t.Context()
	r.reserve(askModel("b"))
	down.on = true
	a := r.reserve(askModel("a"))
	if !a.Outage {
		t.Fatalf("not admitted: %+v", a.Verdict)
	}
	if _, err := r.Reserve(ctx, askModel("c")); !errors.Is(err, quota.ErrOutage) {
		t.Errorf("another key beyond the allowance of 1,000: %v, want an outage", err)
	}
	if err := r.BlockFor(ctx, tokensOf("c"), time.Hour, "no"); err != nil {
		t.Fatal(err)
	}
	var refused *quota.RefusedError
	if _, err := r.Reserve(ctx, askModel("c")); !errors.As(err, &refused) || refused.Pool != tokensOf("c") {
		t.Errorf("the key that was blocked: %v, want a refusal", err)
	}
	if _, err := a.Settle(ctx, quota.Units{"requests": 1, "tokens": 150}); err != nil {
		t.Fatal(err)
	}
	down.on = false
	if err := r.Replay(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := r.used(), "c 0 of 1000, b 600 of 1000, a 150 of 1000"; got != want {
		t.Errorf("used %s, want %s", got, want)
	}
	if _, err := r.Reserve(ctx, askModel("c")); !errors.As(err, &refused) || !refused.Blocked {
		t.Errorf("the key that was blocked in the outage: %v", err)
	}
}

// unreachable is a store that can be out of reach.
type unreachable struct {
	quota.Store
	on bool
}

func (s *unreachable) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if s.on {
		return quota.Verdict{}, errors.New("no route to host")
	}
	return s.Store.Reserve(ctx, r)
}

func (s *unreachable) Block(ctx context.Context, b quota.BlockRequest) error {
	if s.on {
		return errors.New("no route to host")
	}
	return s.Store.Block(ctx, b)
}

func (s *unreachable) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	if s.on {
		return nil, errors.New("no route to host")
	}
	return s.Store.Record(ctx, r)
}

func (s *unreachable) Keys(ctx context.Context, p quota.Pool, most int) ([]string, int, error) {
	return s.Store.(quota.KeyLister).Keys(ctx, p, most)
}

// The usage of a keyed pool is bounded, whatever the number of its keys.
func TestUsageOfManyKeys(t *testing.T) {
	for name, open := range map[string]func(quota.Clock) quota.Store{
		"memory": func(c quota.Clock) quota.Store { return memstore.New(&memstore.Options{Clock: c}) },
		"sqlite": func(c quota.Clock) quota.Store {
			s, err := sqlitestore.Open(context.Background(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := keyedLedger(t, open)
			for i := range 40 {
				r.clock.Advance(time.Millisecond)
				r.reserve(quota.Call{Method: "list", Keys: map[string]string{"users": fmt.Sprint("user", i)}})
			}
			r.reserve(quota.Call{Method: "list", Keys: map[string]string{"users": "user35"}})
			all, err := r.View().Usage(t.Context(), "llm", "default")
			if err != nil {
				t.Fatal(err)
			}
			users := 0
			for _, u := range all {
				if u.Pool.Name == "users" {
					if users++; users == 1 && u.Pool.Key != "user35" || u.Keys != 40 {
						t.Errorf("%d: %s of %d keys, want user35 of 40 first", users, u.Pool, u.Keys)
					}
				}
			}
			if users != 10 {
				t.Errorf("%d users are shown, want 10", users)
			}
		})
	}
}
