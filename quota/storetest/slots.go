package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

func inFlight(limit int64, ttl time.Duration) window.Limit {
	return limited(limit, window.Spec{Algorithm: window.InFlight, Per: ttl})
}

// renews renews the slots of ids, and says which had one: "yes, no".
func renews(ids ...string) action { return slotsOf(false, ids) }

// ends gives the slots of ids back.
func ends(ids ...string) action { return slotsOf(true, ids) }

func slotsOf(done bool, ids []string) action {
	return func(r *rig) string {
		var tokens []quota.Token
		for _, id := range ids {
			tokens = append(tokens, r.tokens[id])
		}
		held, err := r.s.Slots(context.Background(), tokens, done)
		if err != nil {
			return fault(err)
		}
		var said []string
		for _, h := range held {
			said = append(said, map[bool]string{true: "yes", false: "no"}[h])
		}
		return strings.Join(said, ", ")
	}
}

// release gives everything of an id back.
func release(id string) action { return settleTo(id, nil) }

// recordsOf and reserveAsOf record and reserve units of one pool under an id.
func recordsOf(id, pool string, units int64) action {
	return func(r *rig) string {
		got, err := r.s.Record(context.Background(), quota.Request{ID: id, Charges: []quota.Charge{r.charge(pool, units)}})
		if err != nil {
			return fault(err)
		}
		return fmt.Sprint(pool, " ", got[pool])
	}
}

func reserveAsOf(id, pool string, units int64) action {
	return func(r *rig) string {
		return tell(r.ask(quota.Request{ID: id, Charges: []quota.Charge{r.charge(pool, units)}}))
	}
}

// Calls in flight: a slot counts until it is given back, or its ttl has passed since it was
// renewed.
func testSlots(t *testing.T, h Harness) {
	two := []window.Limit{inFlight(2, time.Minute)}
	ten := map[string][]window.Limit{"searches": {ring(10, time.Hour, time.Minute)}}
	run(t, h, []timeline{
		{"done_gives_a_slot_back_once", two, nil, []row{
			{0, reserveAs("a", 1), "granted 1/2"},
			{0, reserveAs("b", 1), "granted 2/2"},
			{time.Second, reserveAs("c", 1), "refused 2/2, retry after 59s"},
			{time.Second, ends("a"), "yes"},
			{time.Second, ends("a"), "no"},
			{time.Second, looks("units"), "1"},
			{time.Second, reserveAs("c", 1), "granted 2/2"},
			{time.Second, ends("a"), "no"},
			{time.Second, looks("units"), "2"},
		}},
		{"the_earliest_expiry_frees_it", two, nil, []row{
			{0, reserveAs("a", 1), "granted 1/2"},
			{10 * time.Second, reserveAs("b", 1), "granted 2/2"},
			{20 * time.Second, reserve(1), "refused 2/2, retry after 40s"},
			{60 * time.Second, reserveAs("c", 1), "granted 2/2"},
			{60 * time.Second, ends("a"), "yes"}, // it had one, which has expired
			{60 * time.Second, looks("units"), "2"},
		}},
		{"renewing_keeps_it", two, nil, []row{
			{0, reserveAs("a", 1), "granted 1/2"},
			{0, reserveAs("b", 1), "granted 2/2"},
			{40 * time.Second, renews("a"), "yes"},
			{60 * time.Second, reserve(1), "granted 2/2"}, // of b
			{99 * time.Second, reserve(1), "refused 2/2, retry after 1s"},
			{99 * time.Second, ends("a"), "yes"},
			{99 * time.Second, looks("units"), "1"},
		}},
		{"renewing_prolongs_the_receipt", two, ten, []row{
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
			{20 * time.Minute, renews("a"), "yes"},
			{75 * time.Minute, renews("a"), "yes"},
			{130 * time.Minute, reserveBoth("a", 1, 5), "granted again"},
			{134 * time.Minute, settleTo("a", quota.Units{"searches": 5}), "nothing"},
			{134 * time.Minute, ends("a"), "yes"},
		}},
		{"a_lost_slot_is_taken_again", two, nil, []row{
			{0, reserveAs("a", 1), "granted 1/2"},
			{60 * time.Second, reserveAs("b", 2), "granted 2/2"},
			{70 * time.Second, renews("a", "b"), "yes, yes"},
			{70 * time.Second, looks("units"), "3"}, // it is in flight, past the limit or not
			{70 * time.Second, ends("b"), "yes"},
			{70 * time.Second, reserve(1), "granted 2/2"},
		}},
		{"what_was_given_back_is_not_renewed", two, nil, []row{
			{0, reserveAs("a", 1), "granted 1/2"},
			{0, ends("a"), "yes"},
			{0, renews("a"), "no"},
			{0, looks("units"), "0"},
		}},
		{"settling_leaves_it", two, ten, []row{
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
			{0, settleTo("a", quota.Units{"searches": 2}), "back 3"},
			{0, looks("units", "searches"), "1; 2"},
			{time.Second, renews("a"), "yes"},
			{time.Second, settleTo("a", quota.Units{"searches": 2}), "back 3, again"},
			{60 * time.Second, looks("units", "searches"), "1; 2"},
			{60 * time.Second, ends("a"), "yes"},
			{60 * time.Second, looks("units", "searches"), "0; 2"},
		}},
		{"settling_does_not_name_it", two, ten, []row{
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
			{0, settleTo("a", quota.Units{"searches": 2, "units": 1}), "bad input"},
			{0, settleTo("a", quota.Units{}), "bad input"},
			{0, looks("units", "searches"), "1; 5"},
		}},
		{"settling_to_nothing_leaves_it", two, ten, []row{
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
			{0, settleTo("a", quota.Units{"searches": 0}), "back 5"},
			{0, looks("units", "searches"), "1; 0"},
			{0, reserveBoth("a", 1, 5), "granted again"}, // the call is in flight
			{0, looks("units", "searches"), "1; 0"},
			{0, ends("a"), "yes"},
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"}, // nothing is left of it
			{0, looks("units", "searches"), "1; 5"},
		}},
		{"releasing_gives_it_back", two, ten, []row{
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
			{time.Second, renews("a"), "yes"},
			{time.Second, release("a"), "back 6"},
			{time.Second, looks("units", "searches"), "0; 0"},
			{time.Second, release("a"), "back 6, again"},
			{time.Second, ends("a"), "no"},
			{time.Second, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
		}},
		{"releasing_after_done", two, ten, []row{
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
			{0, reserveAs("b", 1), "granted 2/2"},
			{0, ends("a"), "yes"},
			{0, release("a"), "back 5"},
			{0, looks("units", "searches"), "1; 0"},
		}},
		{"an_id_is_granted_again_only_while_its_call_is_in_flight", two, ten, []row{
			{0, reserveAs("a", 1), "granted 1/2"},
			{0, reserveAs("a", 1), "granted again"},
			{0, reserveAs("a", 2), "bad input"},
			{0, ends("a"), "yes"},
			{0, reserveAs("a", 1), "bad input"},
			{0, looks("units"), "0"},
		}},
		{"an_id_is_charged_once_without_its_slots_too", two, ten, []row{
			{0, reserveBoth("a", 1, 5), "granted 1/2 of units at once"},
			{0, recordsOf("a", "searches", 5), "searches 5"},
			{0, recordsOf("a", "searches", 6), "bad input"},
			{0, reserveAsOf("a", "searches", 5), "granted again"},
			{0, recordsOf("a", "units", 1), "bad input"},
			{0, ends("a"), "yes"},
			{0, recordsOf("a", "searches", 5), "searches 5"},
			{0, reserveAsOf("a", "searches", 5), "granted again"},
			{0, settleTo("a", quota.Units{"searches": 2}), "back 3"},
			{0, looks("units", "searches"), "0; 2"},
		}},
		{"all_or_nothing", two, ten, []row{
			{0, reserveOf("searches", 8), "granted 8/10"},
			{0, reserveBoth("a", 1, 3), "refused 8/10, retry after 1h1m0s of searches 1h"},
			{0, looks("units", "searches"), "0; 8"},
			{0, reserve(2), "granted 2/2"},
			{0, reserveBoth("a", 1, 1), "refused 2/2, retry after 1m0s of units at once"},
			{0, looks("units", "searches"), "2; 8"},
		}},
		{"a_clock_that_had_been_far_ahead", two, nil, []row{
			{1000 * time.Hour, reserveAs("a", 1), "granted 1/2"},
			{0, looks("units"), "1"},
			{0, ends("a"), "yes"}, // its window is no longer known
			{60 * time.Second, looks("units"), "0"},
		}},
		{"only_by_itself", []window.Limit{inFlight(2, time.Minute), exact(2, time.Minute)}, nil, []row{
			{0, reserve(1), "bad input"},
		}},
		{"impossible", two, nil, []row{{0, reserve(3), "impossible, limit 2"}}},
	})
	t.Run("a_receipt_lives_while_its_slot_is_renewed", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, inFlight(2, time.Hour))
		r.pools["searches"] = []window.Limit{ring(10, time.Second, 100*time.Millisecond), exact(10, time.Minute)}
		reserveBoth("a", 1, 5)(r)
		reserveBoth("b", 1, 5)(r)
		for range 12 {
			if h.Age != nil {
				h.Age(t, r.s, 20*time.Minute)
			}
			r.set(r.now.Add(20 * time.Minute))
			if got := renews("a")(r); got != "yes" {
				t.Fatal(got)
			}
		}
		if got := renews("b")(r); got != "no" {
			t.Errorf("one that nobody has renewed: %s", got)
		}
		if got := settleTo("a", quota.Units{"searches": 7})(r); got != "charged 2" {
			t.Errorf("settle: %s", got)
		}
		if got := looks("units", "searches")(r); got != "1; 2, 2" {
			t.Errorf("used: %s", got)
		}
		if got := ends("a")(r); got != "yes" {
			t.Errorf("done: %s", got)
		}
	})
	t.Run("it_leaves_no_spend", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, two...)
		r.pools["searches"] = ten["searches"]
		for _, do := range []action{reserveBoth("a", 1, 5), renews("a"), settleTo("a", quota.Units{"searches": 3}), ends("a"), reserveAs("b", 1)} {
			do(r)
		}
		got, err := r.s.Spend(context.Background(), quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
		want := []quota.Spent{{Pool: r.charge("searches", 0).Pool, Day: "2026-03-02", Units: 3, Calls: 1}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("spend (-want +got): %v\n%s", err, diff)
		}
	})
	t.Run("of_other_tokens_nothing", func(t *testing.T) {
		r := newRig(t, h, two...)
		r.tokens["nobody"] = quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "x", Nonce: [16]byte{1}}
		if got := reserveAs("a", 1)(r); got != "granted 1/2" {
			t.Fatal(got)
		}
		forged := r.tokens["a"]
		forged.Nonce[0]++
		r.tokens["forged"] = forged
		if got := ends("nobody", "forged", "a")(r); got != "no, no, yes" {
			t.Errorf("tokens of nobody, forged and true: %s", got)
		}
		if got := slotsOf(true, nil)(r); got != "" {
			t.Errorf("no tokens: %s", got)
		}
	})
	t.Run("another_price_book", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, two...)
		reserveAs("a", 1)(r)
		reserveAs("b", 1)(r)
		r.revision++
		r.pools["units"] = []window.Limit{ring(10, time.Hour, time.Minute)}
		if got := reserve(1)(r); got != "granted 3/10" {
			t.Fatal(got)
		}
		if got := renews("a", "b")(r); got != "no, no" {
			t.Errorf("slots of a pool that counts none: %s", got)
		}
		if got := settleTo("a", quota.Units{})(r); got != "nothing" {
			t.Errorf("settle: %s", got)
		}
		if got := looks("units")(r); got != "3" {
			t.Errorf("used: %s", got)
		}
	})
	t.Run("never_over", func(t *testing.T) { testSlotsAtOnce(t, h) })
}

// Calls come and go, and are renewed by others meanwhile.
func testSlotsAtOnce(t *testing.T, h Harness) {
	r := newRig(t, h, inFlight(5, time.Hour))
	stores := []quota.Store{r.s}
	if h.Share != nil {
		stores = append(stores, h.Share(t, r.s))
	}
	var now, most, granted int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, ctx := stores[i%len(stores)], context.Background()
			for n := range scaled(40, 400) {
				v, err := s.Reserve(ctx, quota.Request{ID: string(rune('a'+i)) + time.Duration(n).String(), Charges: []quota.Charge{r.charge("units", 1)}})
				if err != nil {
					t.Error(err)
					return
				}
				if !v.Allowed {
					continue
				}
				mu.Lock()
				now, granted = now+1, granted+1
				most = max(most, now)
				mu.Unlock()
				if n%2 == 0 {
					if held, err := s.Slots(ctx, []quota.Token{v.Token()}, false); err != nil || !held[0] {
						t.Errorf("renew: %v %v", held, err)
					}
				}
				mu.Lock()
				now--
				mu.Unlock()
				if held, err := stores[(i+1)%len(stores)].Slots(ctx, []quota.Token{v.Token()}, true); err != nil || !held[0] {
					t.Errorf("give back: %v %v", held, err)
				}
			}
		})
	}
	wg.Wait()
	if used := r.used("units"); most > 5 || used != 0 || granted == 0 {
		t.Errorf("%d at once of 5, of %d calls; %d are left", most, granted, used)
	}
}
