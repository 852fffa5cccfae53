package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// part returns the token of a part of a reservation of the rig.
func (r *rig) part(of, name string, calls int64, units ...int64) quota.Token {
	whole := r.tokens[of]
	p := storekit.Part{Of: of, Name: name, Calls: calls, Units: units}
	whole.Nonce = storekit.PartNonce(whole.Nonce, p.ID())
	whole.ID = p.ID()
	return whole
}

// settlePart settles a part of a reservation for many calls.
func settlePart(of, name string, calls, units int64, to ...int64) action {
	return func(r *rig) string {
		r.tokens["part"] = r.part(of, name, calls, units)
		return settle("part", to...)(r)
	}
}

// testParts checks that parts of a reservation are settled by themselves, each once, at
// the instant at which the whole was taken.
func testParts(t *testing.T, h Harness) {
	ten := []window.Limit{ring(10, 10*time.Second, time.Second)}
	run(t, h, []timeline{
		{"each_part_gives_back_what_it_did_not_cost", ten, nil, []row{
			{0, reserveAs("block", 8), "granted 8/10"},
			{time.Second, settlePart("block", "1", -1, 3, 1), "back 2"},
			{time.Second, settlePart("block", "2", -1, 2, 0), "back 2"},
			{time.Second, looks("units"), "4"},
			{2 * time.Second, settlePart("block", "3", -1, 1, 4), "charged 3"},
			{2 * time.Second, settlePart("block", "rest", 2, 2, 0), "back 2"},
			{2 * time.Second, looks("units"), "5"},
			{11 * time.Second, looks("units"), "3"}, // the block has left, but not what was charged on top
		}},
		{"a_part_is_settled_once", ten, nil, []row{
			{0, reserveAs("block", 8), "granted 8/10"},
			{0, settlePart("block", "1", -1, 3, 1), "back 2"},
			{0, settlePart("block", "1", -1, 3, 0), "back 2, again"},
			{0, settlePart("block", "1", -1, 3, 1), "back 2, again"},
			{0, looks("units"), "6"},
			{0, settlePart("block", "2", -1, 3, 3), "nothing"},
			{0, settlePart("block", "2", -1, 3, 0), "nothing, again"},
			{0, looks("units"), "6"},
		}},
		{"a_part_whose_units_have_left_changes_nothing_and_says_so", ten, nil, []row{
			{0, reserveAs("block", 8), "granted 8/10"},
			{11 * time.Second, reserve(5), "granted 5/10"},
			{11 * time.Second, settlePart("block", "1", -1, 3, 0), "left 3"},
			{11 * time.Second, looks("units"), "5"},
		}},
		{"bad_input_settles_no_part", ten, nil, []row{
			{0, reserveAs("block", 8), "granted 8/10"},
			{0, settlePart("block", "1", -1, 3), "bad input"},
			{0, settlePart("block", "1", -1, 3, -1), "bad input"},
			{0, settlePart("block", "1", -1, 3, 1, 1), "bad input"},
			{0, looks("units"), "8"},
			{0, settlePart("block", "1", -1, 3, 0), "back 3"},
		}},
		{"no_part_of_what_was_settled_as_a_whole", ten, nil, []row{
			{0, reserveAs("block", 8), "granted 8/10"},
			{0, settle("block", 8), "nothing"},
			{0, settlePart("block", "1", -1, 3, 0), "bad input"},
			{0, looks("units"), "8"},
		}},
	})
	t.Run("only_its_own_token_settles_a_part", func(t *testing.T) {
		r := newRig(t, h, ten...)
		reserveAs("block", 8)(r)
		forged := r.part("block", "1", -1, 1)
		forged.ID = r.part("block", "1", -1, 8).ID
		for name, token := range map[string]quota.Token{
			"other units":    forged,
			"unknown":        r.part("nothing", "1", -1, 1),
			"other charges":  r.part("block", "1", -1, 1, 1),
			"negative units": r.part("block", "1", -1, -1),
		} {
			if _, err := r.s.Settle(context.Background(), token, nil); !errors.Is(err, quota.ErrNoReceipt) {
				t.Errorf("%s: %v, want no receipt", name, err)
			}
		}
		if used := r.used("units"); used != 8 {
			t.Errorf("%d units are used, want 8", used)
		}
	})
	t.Run("one_part_by_many_at_once", func(t *testing.T) {
		r := newRig(t, h, ten...)
		reserveAs("block", 8)(r)
		token := r.part("block", "1", -1, 2)
		var wg sync.WaitGroup
		var mu sync.Mutex
		first := 0
		for range 8 {
			wg.Go(func() {
				s, err := r.s.Settle(context.Background(), token, nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || s.Back != 2 {
					t.Errorf("settle: %+v %v", s, err)
				}
				if !s.Repeat {
					first++
				}
			})
		}
		wg.Wait()
		if used := r.used("units"); first != 1 || used != 6 {
			t.Errorf("%d of 8 were the first, %d units are used; want 1 and 6", first, used)
		}
	})
	t.Run("parts_of_several_pools", func(t *testing.T) {
		r := newRig(t, h, ten...)
		r.pools["searches"] = ten
		reserveBoth("block", 8, 4)(r)
		r.tokens["part"] = r.part("block", "1", -1, 4, 2)
		if got := settle("part", 1, 3)(r); got != "back 3, charged 1" {
			t.Errorf("settled: %s", got)
		}
		if got := looks("units", "searches")(r); got != "5; 5" {
			t.Errorf("used: %s", got)
		}
	})
	t.Run("spend_tells_the_calls_of_a_block", func(t *testing.T) {
		r := newRig(t, h, ten...)
		request := quota.Request{ID: "block", Charges: []quota.Charge{r.charge("units", 8)}, Labels: quota.Labels{Method: "list", Job: "trending"}}
		if _, err := r.ask(request); err != nil {
			t.Fatal(err)
		}
		for _, do := range []action{
			settlePart("block", "1", -1, 2, 1),   // a call that cost less
			settlePart("block", "2", -1, 2, 0),   // one that was never sent
			settlePart("block", "rest", 2, 2, 0), // there were three in all
		} {
			if got := do(r); fault(nil) == got {
				t.Fatal(got)
			}
		}
		spent := r.spent(quota.SpendQuery{})
		if len(spent) != 1 || spent[0].Units != 3 || spent[0].Calls != 2 || spent[0].Labels != request.Labels {
			t.Errorf("spend is %s, want 3 units of 2 calls", fmt.Sprint(spent))
		}
	})
}
