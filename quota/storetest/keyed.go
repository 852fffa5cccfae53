package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A keyed pool has a page per key. One reservation charges plain pools and keyed ones
// together, and leaves one receipt.
func testKeyed(t *testing.T, h Harness) {
	hundred := []window.Limit{ring(100, 10*time.Second, time.Second)}
	tokens := map[string][]window.Limit{"tokens": {ring(10, 10*time.Second, time.Second)}}
	logged := map[string][]window.Limit{"tokens": {exact(10, 10*time.Second)}}
	run(t, h, []timeline{
		{"a_page_per_key", hundred, tokens, []row{
			{0, key("a", 9, 3), "granted 3/10"},
			{0, key("b", 9, 4), "granted 4/10"},
			{0, key("a", 9, 8), "refused 3/10, retry after 11s"},
			{0, key("a", 9, 7), "granted 10/10"},
			{0, keyUsed("a", "b", "c"), "10; 4; none"},
			{11 * time.Second, key("a", 9, 10), "granted 10/10"},
		}},
		{"all_or_nothing_beside_a_pool", hundred, tokens, []row{
			{0, keyAnd("", "a", 9, 9, 1), "granted 9/10"},
			{0, keyAnd("", "a", 9, 2, 1), "refused 9/10, retry after 11s"},
			{0, looks("units"), "1"},
			{0, keyAnd("", "b", 9, 2, 100), "refused 1/100, retry after 11s"},
			{0, keyUsed("a", "b"), "9; none"},
		}},
		{"one_receipt_for_all", hundred, tokens, []row{
			{0, keyAnd("id", "a", 9, 9, 50), "granted 9/10"},
			{0, keyAnd("id", "a", 9, 9, 50), "granted again"},
			{0, keyAnd("id", "b", 9, 9, 50), "bad input"}, // another key is another charge
			{0, settleTo("id", quota.Units{"units": 40, "tokens": 2}), "back 17"},
			{0, settleTo("id", quota.Units{"units": 40, "tokens": 2}), "back 17, again"},
			{0, looks("units"), "40"},
			{0, keyUsed("a", "b"), "2; none"},
			{0, spentOf("tokens", "units"), "2; 40"},
		}},
		{"settled_up", hundred, tokens, []row{
			{0, keyAnd("id", "a", 9, 5, 1), "granted 5/10"},
			{0, key("b", 9, 1), "granted 1/10"},
			{0, settleTo("id", quota.Units{"units": 1, "tokens": 12}), "charged 7"},
			{0, keyUsed("a", "b"), "12; 1"},
			{0, key("a", 9, 1), "refused 12/10, retry after 11s"},
		}},
		{"settled_up_after_its_window", hundred, tokens, []row{
			{0, keyAnd("id", "a", 9, 5, 1), "granted 5/10"},
			{5 * time.Minute, key("b", 9, 1), "granted 1/10"},
			{6 * time.Minute, settleTo("id", quota.Units{"units": 1, "tokens": 12}), "charged 7"},
			{6 * time.Minute, keyUsed("a"), "7"},
		}},
		{"released", hundred, tokens, []row{
			{0, keyAnd("id", "a", 9, 5, 1), "granted 5/10"},
			{0, settleTo("id", nil), "back 6"},
			{0, keyUsed("a"), "0"},
			{0, keyAnd("id", "a", 9, 5, 1), "granted 5/10"},
		}},
		{"a_log", hundred, logged, []row{
			{0, keyAnd("id", "a", 1, 5, 1), "granted 5/10"},
			{0, key("b", 1, 4), "granted 4/10, overflow"},
			{0, settleTo("id", quota.Units{"units": 1, "tokens": 2}), "back 3"},
			{0, keyUsed("a"), "2"},
			{10 * time.Second, key("b", 1, 3), "granted 3/10"}, // in the place of a
			{10 * time.Second, key("a", 1, 3), "granted 3/10, overflow"},
			{20 * time.Second, key("a", 1, 3), "granted 3/10"},
		}},
		{"limits_of_their_own", hundred, tokens, []row{
			{0, keyLimit(50, "a", 40), "granted 40/50"},
			{0, keyLimit(50, "a", 11), "refused 40/50, retry after 11s"},
			{0, keyLimit(5, "b", 6), "impossible, limit 5"},
		}},
		{"a_key_of_the_price_book_takes_no_place", hundred, tokens, []row{
			{0, keyAnd("id", "a", 0, 4, 1), "granted 4/10"},
			{0, settleTo("id", quota.Units{"tokens": 3, "units": 1}), "back 1"},
			{0, key("b", 1, 3), "granted 3/10"},
			{0, key("c", 1, 3), "granted 3/10, overflow"},
			{0, key("a", 0, 3), "granted 6/10"},
		}},
		{"recorded_beside_a_pool", hundred, tokens, []row{
			{0, keyRecorded("id", "a", 9, 14, 7), "tokens 14, units 7"},
			{0, keyRecorded("id", "a", 9, 14, 7), "tokens 14, units 7"},
			{0, keyUsed("a"), "14"},
			{0, looks("units"), "7"},
			{0, key("a", 9, 1), "refused 14/10, retry after 11s"},
		}},
		{"a_correction_of_one_key", hundred, tokens, []row{
			{0, key("a", 9, 8), "granted 8/10"},
			{0, key("b", 9, 8), "granted 8/10"},
			{0, keyRecorded("", "a", 9, -20, 0), "tokens -8"},
			{0, keyUsed("a", "b"), "0; 8"},
		}},
		{"a_pool_and_its_keys_are_kept_apart", hundred, tokens, []row{
			{0, reserveOf("tokens", 9), "granted 9/10"},
			{0, key("a", 9, 8), "granted 8/10"},
			{0, looks("tokens"), "9"},
			{0, keyUsed("a"), "8"},
		}},
	})
	t.Run("full", func(t *testing.T) { testFullPool(t, h, hundred, tokens) })
	t.Run("blocks", func(t *testing.T) { testKeyedBlocks(t, h, hundred, tokens) })
	t.Run("two_keys_of_one_pool_are_bad_input", func(t *testing.T) {
		r := newRig(t, h, hundred...)
		r.pools["tokens"] = tokens["tokens"]
		_, err := r.ask(quota.Request{Charges: []quota.Charge{r.keyOf("a", 9, 1), r.keyOf("b", 9, 1)}})
		if !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("%v, want bad input", err)
		}
	})
	t.Run("odd_keys_are_kept_apart", func(t *testing.T) { testOddKeys(t, h, tokens) })
	t.Run("a_higher_revision_lays_a_page_out_again", func(t *testing.T) {
		r := newRig(t, h, hundred...)
		r.pools["tokens"] = tokens["tokens"]
		r.reserve(r.keyOf("a", 1, 4))
		r.reserve(r.keyOf("shared", 1, 5))
		r.revision, r.pools["tokens"] = 2, []window.Limit{exact(20, time.Minute), ring(10, 10*time.Second, time.Second)}
		for name, want := range map[string]string{"a": "granted 5/10", "shared": "granted 6/10, overflow"} {
			if got := key(name, 1, 1)(r); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		r.revision = 1
		if got := key("a", 1, 1)(r); got != "stale book" {
			t.Errorf("%s, want a stale book", got)
		}
	})
}

// A block of one key shuts that key only.
func testKeyedBlocks(t *testing.T, h Harness, hundred []window.Limit, tokens map[string][]window.Limit) {
	run(t, h, []timeline{
		{"one_key", hundred, tokens, []row{
			{0, keyAnd("", "a", 9, 1, 1), "granted 1/10"},
			{0, keyBlocked("a", 9, time.Minute), "ok"},
			{0, keyAnd("", "a", 9, 1, 1), "blocked, retry after 1m0s"},
			{0, keyAnd("", "b", 9, 1, 1), "granted 1/10"},
			{0, looks("units"), "2"},
			{0, keyReason("a", "b"), "a is down; "},
			{0, keyOpened("a", 9), "ok"},
			{0, keyAnd("", "a", 9, 1, 1), "granted 2/10"},
			{0, keyReason("a"), ""},
			{0, keyBlocked("a", 9, time.Minute), "ok"},
			{time.Minute, keyAnd("", "a", 9, 1, 1), "granted 1/10"},
		}},
		{"together_with_a_pool", hundred, tokens, []row{
			{0, func(r *rig) string {
				b := quota.BlockRequest{Charges: []quota.Charge{r.charge("units", 0), r.keyOf("a", 9, 0)}, For: time.Minute, Reason: "both"}
				return fault(r.s.Block(context.Background(), b))
			}, "ok"},
			{0, reserve(1), "blocked, retry after 1m0s"},
			{0, key("a", 9, 1), "blocked, retry after 1m0s"},
			{0, key("b", 9, 1), "granted 1/10"},
			{0, keyReason("a"), "both"},
		}},
		{"of_keys_that_share_a_page", hundred, tokens, []row{
			{0, key("a", 1, 1), "granted 1/10"},
			{0, keyBlocked("b", 1, time.Minute), "ok"},
			{0, key("c", 1, 1), "blocked, retry after 1m0s, overflow"},
			{0, func(r *rig) string { return r.last.Reason }, "b is down"},
			{0, key("a", 1, 1), "granted 2/10"},
		}},
	})
}

// testOddKeys charges keys, and pools whose names look like keys, and settles them.
func testOddKeys(t *testing.T, h Harness, tokens map[string][]window.Limit) {
	r := newRig(t, h)
	r.pools["plain"] = tokens["tokens"]
	many := []window.Limit{exact(1000, 24*time.Hour), ring(1000, 24*time.Hour, time.Minute)}
	charge := func(pool, key string, units int64) quota.Charge {
		r.pools[pool] = many
		c := r.charge(pool, units)
		c.Pool.Key, c.MaxKeys = key, 1000
		return c
	}
	type page struct{ pool, key string }
	pages := []page{{"a", "b:key:c"}, {"a:key:b", "c"}, {"a", ""}, {"a:key:b:key:c", ""}, {"a", "b"}, {"a", "b:log1"}, {"a", "b:reason"}, {"a:seats", "b"}}
	for _, odd := range append(oddNames, "key", "203.0.113.7", "2001:db8::1", `a"b`, "ключ", " ", strings.Repeat("k", 64)) {
		pages = append(pages, page{odd, ""}, page{odd, odd}, page{"a", odd})
	}
	seen := map[page]bool{}
	for i, p := range pages {
		if seen[p] {
			continue
		}
		seen[p] = true
		id := fmt.Sprint("call ", i)
		v, err := r.ask(quota.Request{ID: id, Charges: []quota.Charge{charge(p.pool, p.key, int64(i+2)), r.charge("plain", 0)}})
		if err != nil || !v.Allowed || v.Overflow {
			t.Fatalf("%q: %s", p, tell(v, err))
		}
		if got, want := settleTo(id, quota.Units{p.pool: 1, "plain": 0})(r), fmt.Sprint("back ", i+1); got != want {
			t.Errorf("%q: %s, want %s", p, got, want)
		}
		state, err := r.s.Look(context.Background(), []quota.Charge{charge(p.pool, p.key, 0)})
		if err != nil || state[0].Windows[0].Used != 1 || state[0].Windows[1].Used != 1 {
			t.Errorf("%q: %+v %v, want 1 used", p, state, err)
		}
	}
}

// keyOf returns a charge of a key of the pool "tokens", of at most most keys.
func (r *rig) keyOf(key string, most int, units int64) quota.Charge {
	c := r.charge("tokens", units)
	c.Pool.Key, c.MaxKeys = key, most
	return c
}

func key(name string, most int, units int64) action {
	return func(r *rig) string {
		return tell(r.ask(quota.Request{Charges: []quota.Charge{r.keyOf(name, most, units)}}))
	}
}

// keyLimit is key with another limit, as the price book lists it.
func keyLimit(most int64, name string, units int64) action {
	return func(r *rig) string {
		c := r.keyOf(name, 0, units)
		c.Windows = []window.Limit{limited(most, c.Windows[0].Spec)}
		return tell(r.ask(quota.Request{Charges: []quota.Charge{c}}))
	}
}

func keyOfStaging(name string, most int, units int64) action {
	return func(r *rig) string {
		c := r.keyOf(name, most, units)
		c.Pool.Account = "staging"
		return tell(r.ask(quota.Request{Charges: []quota.Charge{c}}))
	}
}

// keyAnd reserves units of a key, and more of the pool "units".
func keyAnd(id, name string, most int, units, more int64) action {
	return func(r *rig) string {
		return tell(r.ask(quota.Request{ID: id, Charges: []quota.Charge{r.keyOf(name, most, units), r.charge("units", more)}}))
	}
}

func keyRecorded(id, name string, most int, units, more int64) action {
	return func(r *rig) string {
		req := quota.Request{ID: id, Charges: []quota.Charge{r.keyOf(name, most, units)}}
		if more != 0 {
			req.Charges = append(req.Charges, r.charge("units", more))
		}
		got, err := r.s.Record(context.Background(), req)
		if err != nil || len(got) != len(req.Charges) {
			return fault(err)
		}
		said := fmt.Sprint("tokens ", got["tokens"])
		if more != 0 {
			said += fmt.Sprint(", units ", got["units"])
		}
		return said
	}
}

func keyBlocked(name string, most int, d time.Duration) action {
	return func(r *rig) string {
		b := quota.BlockRequest{Charges: []quota.Charge{r.keyOf(name, most, 0)}, For: d, Reason: name + " is down"}
		return fault(r.s.Block(context.Background(), b))
	}
}

func keyOpened(name string, most int) action {
	return func(r *rig) string {
		return fault(r.s.Block(context.Background(), quota.BlockRequest{Charges: []quota.Charge{r.keyOf(name, most, 0)}, Open: true}))
	}
}

// keyUsed returns what the first window of the pages of keys counts: "3; none".
func keyUsed(names ...string) action {
	return eachKey(names, func(s quota.PageState) string {
		if !s.Known {
			return "none"
		}
		return fmt.Sprint(s.Windows[0].Used)
	})
}

func keyReason(names ...string) action {
	return eachKey(names, func(s quota.PageState) string { return s.Reason })
}

func eachKey(names []string, tell func(quota.PageState) string) action {
	return func(r *rig) string {
		var said []string
		for _, name := range names {
			states, err := r.s.Look(context.Background(), []quota.Charge{r.keyOf(name, 9, 0)})
			if err != nil {
				return fault(err)
			}
			said = append(said, tell(states[0]))
		}
		return strings.Join(said, "; ")
	}
}

// spentOf returns the units that pools have spent.
func spentOf(pools ...string) action {
	return func(r *rig) string {
		sums := map[string]int64{}
		for _, s := range r.spent(quota.SpendQuery{}) {
			if s.Pool.Key == "" {
				sums[s.Pool.Name] += s.Units
			}
		}
		var said []string
		for _, p := range pools {
			said = append(said, fmt.Sprint(sums[p]))
		}
		return strings.Join(said, "; ")
	}
}
