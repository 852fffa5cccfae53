package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// oddNames are names that a store may mistake for another name, or for a key of its own.
var oddNames = []string{
	"units", "b", "a:b", ":b", "b:", ":", "::", "a%3Ab", "a%253Ab", "a%b", "%", "%25", "%3A", "50%",
	"units:log1", "units:log1:log1", "units%3Alog1", "page:units", "spend:units", "receipt:a", "units:2026-03-02",
	"a/b", "a@b", "{units}", "a}b{c", "units}:page:b", "*", "a b", " ", "ключ", `"`, `'; --`, `\x1e`, "pools", "reasons", "members",
	strings.Repeat("n", 128),
}

// Any printable name is a pool of its own.
func testNames(t *testing.T, h Harness) {
	windows := []window.Limit{exact(1000, time.Hour), ring(1000, time.Hour, time.Minute)}
	t.Run("odd_pools_are_kept_apart", func(t *testing.T) {
		r := newRig(t, h, windows...)
		for i, name := range oddNames {
			r.pools[name] = windows
			id := fmt.Sprint("call of ", i)
			if got, want := r.takes(name, id, int64(i+1)), fmt.Sprintf("granted %d/1000", i+1); got != want {
				t.Errorf("%q: %s, want %s", name, got, want)
			}
			if got := r.takes(name, id, int64(i+1)); got != "granted again" {
				t.Errorf("%q again: %s", name, got)
			}
		}
		spent := make(map[string]quota.Spent)
		for _, s := range r.spent(quota.SpendQuery{}) {
			spent[s.Pool.Name] = s
		}
		for i, name := range oddNames {
			if got, want := looks(name)(r), fmt.Sprintf("%d, %[1]d", i+1); got != want {
				t.Errorf("%q has used %s, want %s", name, got, want)
			}
			if s := spent[name]; s.Units != int64(i+1) || s.Calls != 1 {
				t.Errorf("%q has spent %+v, want %d units", name, s, i+1)
			}
			if got, want := settleTo(fmt.Sprint("call of ", i), quota.Units{name: 0})(r), fmt.Sprint("back ", i+1); got != want {
				t.Errorf("%q is settled: %s, want %s", name, got, want)
			}
		}
	})
	t.Run("odd_pools_in_one_reservation", func(t *testing.T) {
		r := newRig(t, h, windows...)
		for pools := range slices.Chunk(oddNames, 7) {
			req := quota.Request{ID: pools[0]}
			settled := quota.Units{}
			var back []int64
			for i, name := range pools {
				r.pools[name] = windows
				req.Charges = append(req.Charges, r.charge(name, int64(i+2)))
				settled[name], back = 1, append(back, int64(i+1))
			}
			if v, err := r.ask(req); err != nil || !v.Allowed {
				t.Fatalf("%q: %s", pools, tell(v, err))
			}
			if v, err := r.ask(req); err != nil || !v.Repeat {
				t.Errorf("%q again: %s", pools, tell(v, err))
			}
			s, err := r.s.Settle(context.Background(), r.tokens[req.ID], settled)
			if want := sum(back); err != nil || s.Back != want {
				t.Errorf("%q settled: %+v, %v; want %d back", pools, s, err, want)
			}
			for _, name := range pools {
				if got := looks(name)(r); got != "1, 1" {
					t.Errorf("%q has used %s, want 1, 1", name, got)
				}
			}
		}
		for _, s := range r.spent(quota.SpendQuery{}) {
			if s.Units != 1 || s.Calls != 1 {
				t.Errorf("spend: %+v, want 1 unit", s)
			}
		}
	})
	t.Run("odd_pools_are_blocked_one_by_one", func(t *testing.T) {
		r := newRig(t, h, windows...)
		for _, name := range oddNames {
			r.pools[name] = windows
		}
		for i, name := range oddNames {
			b := quota.BlockRequest{Charges: []quota.Charge{r.charge(name, 0)}, For: time.Hour, Reason: fmt.Sprint("reason ", i)}
			if err := r.s.Block(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			if i+1 < len(oddNames) {
				if v := r.reserve(r.charge(oddNames[i+1], 1)); v.Blocked {
					t.Errorf("a block of %q shuts %q", name, oddNames[i+1])
				}
			}
		}
		for i, page := range r.look(oddNames...) {
			if want := fmt.Sprint("reason ", i); page.Reason != want {
				t.Errorf("%q is blocked because of %q, want %q", oddNames[i], page.Reason, want)
			}
		}
	})
	t.Run("odd_upstreams_and_accounts_are_kept_apart", func(t *testing.T) {
		r := newRig(t, h, windows...)
		for i, upstream := range oddNames {
			for k, account := range []string{"a", "b/c", oddNames[(i+1)%len(oddNames)]} {
				c := r.charge("units", int64(1+i+100*k))
				c.Pool.Upstream, c.Pool.Account = upstream, account
				v := r.reserve(c)
				if v.Used != c.Units {
					t.Errorf("%q of %q has used %d, want %d", account, upstream, v.Used, c.Units)
				}
				q := quota.SpendQuery{Upstream: upstream, Account: account}
				if spent, err := r.s.Spend(context.Background(), q); err != nil || len(spent) != 1 || spent[0].Units != c.Units {
					t.Errorf("%q of %q has spent %v, %v; want %d", account, upstream, spent, err, c.Units)
				}
			}
		}
	})
	t.Run("members_and_pools_are_kept_apart", func(t *testing.T) {
		if !h.Families {
			t.Skip("the harness says that this store keeps no families")
		}
		r := newRig(t, h, windows...)
		for i, p := range []quota.Pool{
			{Upstream: "a", Account: "b", Key: "c"},
			{Upstream: "a", Account: "b", Name: "c"},
			{Upstream: "a", Account: "b/c", Name: "c"},
			{Upstream: "a/b", Account: "c", Name: "c"},
			{Upstream: "a", Account: "b/c", Key: "d"},
			{Upstream: "a", Account: "b", Key: "c/d"},
			{Upstream: "a/b", Account: "c", Key: "d"},
			{Upstream: "a/b", Account: "c/d", Name: "page:"},
		} {
			c := r.charge("units", int64(i+1))
			c.Pool = p
			if v := r.reserve(c); v.Used != c.Units {
				t.Errorf("%s has used %d, want %d", p, v.Used, c.Units)
			}
		}
	})
	t.Run("what_cannot_be_printed_is_no_name", func(t *testing.T) {
		r := newRig(t, h, windows...)
		for _, bad := range []string{"a\x1eb", "a\x1db", "a\x1fb", "\x00overflow", "a\nb", "a\x7fb", "a\xffb", strings.Repeat("n", 129)} {
			for part, p := range map[string]quota.Pool{
				"upstream": {Upstream: bad, Account: "default", Name: "units"},
				"account":  {Upstream: "api", Account: bad, Name: "units"},
				"pool":     {Upstream: "api", Account: "default", Name: bad},
				"key":      {Upstream: "api", Account: "default", Key: bad},
			} {
				if part == "key" && !h.Families {
					continue
				}
				c := r.charge("units", 1)
				c.Pool = p
				ctx, req := context.Background(), quota.Request{Charges: []quota.Charge{c}}
				_, reserved := r.s.Reserve(ctx, req)
				_, recorded := r.s.Record(ctx, req)
				errs := map[string]error{
					"reserve": reserved,
					"record":  recorded,
					"block":   r.s.Block(ctx, quota.BlockRequest{Charges: req.Charges, For: time.Hour}),
				}
				if part == "upstream" || part == "account" {
					_, errs["spend"] = r.s.Spend(ctx, quota.SpendQuery{Upstream: p.Upstream, Account: p.Account})
					_, errs["settle"] = r.s.Settle(ctx, quota.Token{Upstream: p.Upstream, Account: p.Account, ID: "a"}, nil)
				}
				for op, err := range errs {
					if !errors.Is(err, quota.ErrBadInput) {
						t.Errorf("%s with %s %.20q: %v, want bad input", op, part, bad, err)
					}
				}
			}
		}
		if spent := r.spent(quota.SpendQuery{}); len(spent) != 0 {
			t.Errorf("something was spent: %v", spent)
		}
	})
}

// takes reserves units of a pool under an id.
func (r *rig) takes(pool, id string, units int64) string {
	return tell(r.ask(quota.Request{ID: id, Charges: []quota.Charge{r.charge(pool, units)}}))
}

func sum(all []int64) (n int64) {
	for _, i := range all {
		n += i
	}
	return n
}
