package quota_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const probeBook = `
revision: 1
upstreams:
  api:
    pools:
      units: {quota: 1000, windows: [{per: 1h}]}
      models: {quota: 1000, by: {header: Model, default: a}, windows: [{per: 1h}]}
    methods:
      get: {pool: units, cost: 1}
      ask: {charge: {units: 1, models: 1}}
`

// probeRig is two processes with one ledger, in a bubble with a clock of its own.
type probeRig struct {
	*testing.T
	a, b *quota.Ledger
}

func probing(t *testing.T, test func(*probeRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, store := &probeRig{T: t}, memstore.New(nil)
		for _, l := range []**quota.Ledger{&r.a, &r.b} {
			var err error
			if *l, err = quota.New(mustParse(t, probeBook), store, nil); err != nil {
				t.Fatal(err)
			}
		}
		test(r)
	})
}

var (
	apiUnits = quota.Pool{Upstream: "api", Account: "default", Name: "units"}
	get      = quota.Call{Method: "get"}
)

func (r *probeRig) block(pool quota.Pool, d time.Duration) {
	r.Helper()
	if err := r.a.BlockFor(r.Context(), pool, d, "the upstream said no"); err != nil {
		r.Fatal(err)
	}
}

// second is refused, because another call goes first.
func (r *probeRig) second(l *quota.Ledger, c quota.Call, after time.Duration) {
	r.Helper()
	_, err := l.Reserve(r.Context(), c)
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || !errors.Is(err, quota.ErrBlocked) || !refused.Probing || refused.RetryAfter != after || !strings.Contains(err.Error(), "one call goes first") {
		r.Errorf("beside the first call: %v; want a refusal for %s", err, after)
	}
}

// open has as many calls granted as anybody wants.
func (r *probeRig) open(l *quota.Ledger, c quota.Call) {
	r.Helper()
	for range 5 {
		must(r, l, c)
	}
}

func TestOneCallGoesFirstAfterABlock(t *testing.T) {
	tests := map[string]func(*probeRig){
		"the others follow when it is answered": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			first := must(r, r.a, get)
			r.second(r.a, get, 5*time.Second)
			time.Sleep(time.Second)
			r.second(r.a, get, 4*time.Second)
			first.Answered()
			r.open(r.a, get)
		},
		"settling says so": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			first := must(r, r.a, get)
			if _, err := r.a.Settle(r.Context(), first.Token(), quota.Units{"units": 1}); err != nil {
				r.Error(err)
			}
			r.open(r.a, get)
		},
		"settling says nothing if the caller tells it": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			tells := get
			tells.TellsAnswer = true
			first := must(r, r.a, tells)
			if _, err := first.Settle(r.Context(), quota.Units{"units": 1}); err != nil {
				r.Error(err)
			}
			r.second(r.a, get, 5*time.Second)
			first.Answered()
			r.open(r.a, get)
		},
		"so does a function that returns no error": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			if err := r.a.Do(r.Context(), get, func(context.Context) error { r.second(r.a, get, 5*time.Second); return nil }); err != nil {
				r.Error(err)
			}
			r.open(r.a, get)
		},
		"if it is refused, the pool is shut again": func(r *probeRig) {
			r.block(apiUnits, 200*time.Millisecond)
			for range 3 {
				time.Sleep(200 * time.Millisecond)
				first := must(r, r.a, get)
				r.second(r.a, get, time.Second)
				r.block(apiUnits, 200*time.Millisecond)
				first.Answered() // the block stands
				if _, err := r.a.Reserve(r.Context(), get); !errors.Is(err, quota.ErrBlocked) {
					r.Errorf("refused again: %v", err)
				}
			}
		},
		"if it never left, the next one goes first": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			for range 3 {
				first := must(r, r.a, get)
				r.second(r.a, get, 5*time.Second)
				if _, err := first.Release(r.Context()); err != nil {
					r.Error(err)
				}
			}
		},
		"if it is never answered, the others go on": func(r *probeRig) {
			r.block(apiUnits, 2*time.Second)
			time.Sleep(2 * time.Second)
			must(r, r.a, get)
			r.second(r.a, get, 2*time.Second) // as long as the block was
			time.Sleep(2 * time.Second)
			r.open(r.a, get)
		},
		"each process that has met the block sends one": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			if _, err := r.b.Reserve(r.Context(), get); !errors.Is(err, quota.ErrBlocked) {
				r.Errorf("while it is shut: %v", err)
			}
			time.Sleep(time.Minute)
			must(r, r.a, get)
			must(r, r.b, get)
			r.second(r.b, get, 5*time.Second)
		},
		"a retry of the first call is the first call": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			named := get
			named.ID = "first"
			must(r, r.a, named)
			if again := must(r, r.a, named); !again.Repeat {
				r.Errorf("%+v, want a repeat", again.Verdict)
			}
			r.second(r.a, get, 5*time.Second)
		},
		"a pool that a person opens needs none": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			if err := r.b.Admin().Unblock(r.Context(), apiUnits); err != nil {
				r.Error(err)
			}
			r.open(r.a, get)
		},
		"a look at the pool does not let the others pass": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			if _, err := r.a.View().Usage(r.Context(), "", ""); err != nil {
				r.Error(err)
			}
			must(r, r.a, get)
			r.second(r.a, get, 5*time.Second)
		},
		"each key has its own": func(r *probeRig) {
			key := apiUnits
			key.Name, key.Key = "models", "a"
			r.block(key, time.Minute)
			ask := quota.Call{Method: "ask", Keys: map[string]string{"models": "b"}}
			time.Sleep(time.Minute)
			r.open(r.a, ask)
			ask.Keys["models"] = "a"
			first := must(r, r.a, ask)
			r.second(r.a, ask, 5*time.Second)
			first.Answered()
			r.open(r.a, ask)
		},
		"calls that draw from a hold, too": func(r *probeRig) {
			h, err := r.a.Hold(r.Context(), get, 10)
			if err != nil {
				r.Fatal(err)
			}
			r.block(apiUnits, time.Second)
			time.Sleep(time.Second)
			ctx := h.Context(r.Context())
			first, err := r.a.Reserve(ctx, get)
			if err != nil {
				r.Fatal(err)
			}
			if _, err := r.a.Reserve(ctx, get); !errors.Is(err, quota.ErrBlocked) {
				r.Errorf("a second call from the hold: %v", err)
			}
			first.Answered()
			for range 9 {
				if _, err := r.a.Reserve(ctx, get); err != nil {
					r.Error(err)
				}
			}
			if err := h.Close(r.Context()); err != nil {
				r.Error(err)
			}
		},
		"calls that wait follow at once": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			began := time.Now()
			var callers sync.WaitGroup
			var mu sync.Mutex
			var came []time.Duration
			for range 20 {
				callers.Go(func() {
					one, err := r.a.Wait(r.Context(), get, 2*time.Minute)
					if err != nil {
						r.Error(err)
						return
					}
					mu.Lock()
					came = append(came, time.Since(began))
					mu.Unlock()
					time.Sleep(3 * time.Second) // until the upstream answers
					one.Answered()
				})
			}
			callers.Wait()
			if len(came) != 20 || came[1]-came[0] != 3*time.Second || came[19]-came[0] > 3100*time.Millisecond {
				r.Errorf("they came after %s; want one first, and the others as soon as it is answered", came)
			}
		},
		"a short wait is enough": func(r *probeRig) {
			r.block(apiUnits, time.Minute)
			time.Sleep(time.Minute)
			first := must(r, r.a, get)
			time.AfterFunc(100*time.Millisecond, first.Answered)
			if _, err := r.a.Wait(r.Context(), get, 500*time.Millisecond); err != nil {
				r.Error(err)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { probing(t, test) })
	}
}

// A call of a leased block has another id than the one that it was asked under.
func TestACallOfABlockGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leasestore.New(memstore.New(nil), nil)
		l, err := quota.New(mustParse(t, strings.Replace(probeBook, "units: {", "units: {lease: {life: 1m}, ", 1)), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &probeRig{T: t, a: l, b: l}
		for range 20 {
			must(t, l, get)
		}
		r.block(apiUnits, time.Second)
		time.Sleep(time.Second)
		first := must(t, l, get)
		if !strings.Contains(first.ID, "~") {
			t.Fatalf("the call %s is of no block", first.ID)
		}
		r.second(l, get, time.Second)
		first.Answered()
		r.open(l, get)
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
