package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 6: a grant leaves a receipt, so retries with the same id are charged once.
func testOnce(t *testing.T, h Harness) {
	hour := []window.Limit{ring(10, time.Hour, time.Minute)}
	run(t, h, []timeline{
		{"an_id_charges_once", hour, map[string][]window.Limit{"searches": hour}, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, reserveAs("a", 5), "granted again"},
			{time.Minute, reserveAs("a", 5), "granted again"},
			{time.Minute, reserveAs("b", 5), "granted 10/10"},
			{time.Minute, reserveAs("a", 5), "granted again"}, // also when the pool is full
			{time.Minute, looks("units"), "10"},
			{time.Minute, blockFor(time.Minute, "units"), "ok"},
			{time.Minute, reserveAs("a", 5), "granted again"},
		}},
		{"another_charge_under_the_same_id_is_bad_input", hour, map[string][]window.Limit{"searches": hour}, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, reserveAs("a", 4), "bad input"},
			{0, reserveAs("a", 6), "bad input"},
			{0, reserveBoth("a", 5, 1), "bad input"},
			{0, looks("units", "searches"), "5; 0"},
			{0, reserveAs("a", 5), "granted again"},
			{0, reserveBoth("b", 1, 1), "granted 6/10 of units 1h"},
			{0, reserveAs("b", 1), "bad input"},
			{0, looks("units", "searches"), "6; 1"},
		}},
		{"a_refused_id_is_decided_afresh", hour, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{0, reserveAs("a", 5), "refused 10/10, retry after 1h1m0s"},
			{0, reserveAs("a", 5), "refused 10/10, retry after 1h1m0s"},
			{61 * time.Minute, reserveAs("a", 4), "granted 4/10"}, // and with other charges
			{61 * time.Minute, reserveAs("a", 4), "granted again"},
		}},
		{"settled_once_the_first_wins", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, settle("a", 2), "back 3"},
			{0, settle("a", 2), "back 3, again"},
			{0, settle("a", 0), "back 3, again"},
			{0, settle("a", 9), "back 3, again"},
			{0, looks("units"), "2"},
			{0, reserveAs("a", 5), "granted again"},
			{0, looks("units"), "2"},
		}},
		{"released_once", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, settle("a", 0), "back 5"},
			{0, settle("a", 0), "back 5, again"},
			{0, settle("a", 5), "back 5, again"},
			{0, looks("units"), "0"},
		}},
		{"a_released_id_is_decided_afresh", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, settle("a", 0), "back 5"},
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, reserveAs("a", 5), "granted again"},
			{0, settle("a", 2), "back 3"},
			{0, reserveAs("a", 5), "granted again"},
			{0, looks("units"), "2"},
		}},
		{"settled_to_what_it_was_is_settled", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, settle("a", 5), "nothing"},
			{0, settle("a", 0), "nothing, again"},
			{0, looks("units"), "5"},
		}},
		{"no_id_no_receipt", hour, nil, []row{
			{0, reserve(5), "granted 5/10"},
			{0, reserve(5), "granted 10/10"},
			{0, settle("", 0), "bad input"},
		}},
		{"a_record_with_an_id_counts_once", hour, nil, []row{
			{0, recordOf("a", 5, nil), "ok"},
			{time.Minute, recordOf("a", 5, nil), "ok"},
			{time.Minute, looks("units"), "5"},
			{time.Minute, recordOf("a", 6, nil), "bad input"},
			{time.Minute, recordOf("b", -2, nil), "ok"},
			{time.Minute, recordOf("b", -2, nil), "ok"},
			{time.Minute, looks("units"), "3"},
			{time.Minute, record(1), "ok"},
			{time.Minute, record(1), "ok"},
			{time.Minute, looks("units"), "5"},
		}},
		{"a_record_under_a_released_id_counts", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, settle("a", 0), "back 5"},
			{0, recordOf("a", 5, nil), "ok"},
			{0, recordOf("a", 5, nil), "ok"},
			{0, looks("units"), "5"},
			{0, recordOf("a", 6, nil), "bad input"},
		}},
		{"receipts_outlive_calls_that_hang", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{quota.ReceiptLife - time.Second, reserveAs("a", 5), "granted again"},
			{quota.ReceiptLife - time.Second, settle("a", 2), "back 3"},
			{quota.ReceiptLife - time.Second, settle("a", 2), "back 3, again"},
		}},
		{"past_its_life_a_repeat_counts_again", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{quota.ReceiptLife + time.Second, reserveAs("a", 5), "granted 10/10"},
		}},
	})
	t.Run("the_token_stays_the_same", func(t *testing.T) {
		r := newRig(t, h, hour...)
		req := quota.Request{ID: strings.Repeat("~", 128), Charges: []quota.Charge{r.charge("units", 1)}}
		first, err := r.ask(req)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.ask(req)
		if err != nil {
			t.Fatal(err)
		}
		if !again.Repeat || first.Repeat || first.Token() == (quota.Token{}) || first.Token() != again.Token() {
			t.Errorf("tokens of one id: %v (repeat %t), %v (repeat %t)", first.Token(), first.Repeat, again.Token(), again.Repeat)
		}
		if first.ID != req.ID || again.ID != req.ID || first.Token().ID != req.ID {
			t.Errorf("the verdict on id %.10q names %.10q, its token %.10q", req.ID, first.ID, first.Token().ID)
		}
		req.ID = "other"
		if other, err := r.ask(req); err != nil || other.Nonce == first.Nonce {
			t.Errorf("two reservations have the nonce %x (%v)", other.Nonce, err)
		}
	})
	t.Run("a_grant_is_found_again_at_limits_of_nothing", func(t *testing.T) {
		r := newRig(t, h, hour...)
		none := r.charge("units", 5)
		none.Windows = slices.Clone(none.Windows)
		none.Windows[0].Limit = 0
		ask := func(id string) quota.Verdict {
			v, err := r.s.Reserve(context.Background(), quota.Request{ID: id, Charges: []quota.Charge{none}})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if v := ask("a"); v.Allowed {
			t.Errorf("granted at a limit of nothing: %+v", v)
		}
		recordOf("a", 5, nil)(r)
		v := ask("a")
		if !v.Allowed || !v.Repeat {
			t.Errorf("what was recorded is not found: %+v", v)
		}
		if s, err := r.s.Settle(context.Background(), v.Token(), quota.Units{"units": 2}); err != nil || s.Back != 3 {
			t.Errorf("settled by the token that was found: %+v, %v", s, err)
		}
	})
	t.Run("the_instant_stays_the_same", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, hour...)
		reserveAs("a", 1)(r)
		r.setTime(time.Minute)
		if got := reserveAs("a", 1)(r); got != "granted again" || !r.last.At.Equal(start) {
			t.Errorf("reserve: %s at %s, want it granted again at %s", got, r.last.At, start)
		}
	})
	t.Run("bad_input_of_three_kinds_is_told_apart", func(t *testing.T) {
		r, ctx := newRig(t, h, hour...), context.Background()
		reserveAs("a", 5)(r)
		again := quota.Request{ID: "a", Charges: []quota.Charge{r.charge("units", 4)}}
		if _, err := r.s.Reserve(ctx, again); !errors.Is(err, quota.ErrOtherCharges) {
			t.Errorf("reserve the id again with other charges: %v", err)
		}
		if _, err := r.s.Record(ctx, again); !errors.Is(err, quota.ErrOtherCharges) {
			t.Errorf("record the id again with other charges: %v", err)
		}
		r.pools["units"] = []window.Limit{exact(10, time.Hour)}
		if _, err := r.s.Reserve(ctx, quota.Request{Charges: []quota.Charge{r.charge("units", 1)}}); !errors.Is(err, quota.ErrOtherWindows) {
			t.Errorf("reserve by other windows: %v", err)
		}
		if _, err := r.s.Reserve(ctx, quota.Request{Charges: []quota.Charge{r.charge("units", -1)}}); !errors.Is(err, quota.ErrBadInput) ||
			errors.Is(err, quota.ErrOtherCharges) || errors.Is(err, quota.ErrOtherWindows) || errors.Is(err, quota.ErrNoReceipt) {
			t.Errorf("reserve less than nothing: %v", err)
		}
	})
	t.Run("only_who_has_the_token_settles", func(t *testing.T) {
		r := newRig(t, h, hour...)
		reserveAs("a", 5)(r)
		token := r.tokens["a"]
		guess, other, stranger := token, token, token
		guess.Nonce[15] ^= 1
		other.ID = "b"
		stranger.Account = "stranger"
		for _, bad := range []quota.Token{guess, other, stranger, {}} {
			if _, err := r.s.Settle(context.Background(), bad, quota.Units{"units": 0}); fault(err) != "bad input" || !errors.Is(err, quota.ErrNoReceipt) {
				t.Errorf("settle with token %+v: %v, want bad input as there is no receipt", bad, err)
			}
		}
		if got := settle("a", 0)(r); got != "back 5" {
			t.Errorf("the right token: %s", got)
		}
	})
	t.Run("a_receipt_that_is_gone_is_called_so", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, hour...)
		reserveAs("a", 5)(r)
		r.setTime(quota.ReceiptLife + time.Second)
		_, err := r.s.Settle(context.Background(), r.tokens["a"], quota.Units{"units": 0})
		if fault(err) != "bad input" || !errors.Is(err, quota.ErrNoReceipt) || !strings.Contains(err.Error(), "ago") && !strings.Contains(err.Error(), "expired") {
			t.Errorf("settled after the receipt expired: %v, want bad input that says so", err)
		}
		if used := r.used("units"); used != 5 {
			t.Errorf("%d units are used, want 5", used)
		}
	})
	t.Run("one_id_by_many_at_once", func(t *testing.T) {
		r := newRig(t, h, hour...)
		var wg sync.WaitGroup
		var mu sync.Mutex
		fresh := 0
		for range 8 {
			wg.Go(func() {
				v, err := r.s.Reserve(context.Background(), quota.Request{ID: "a", Charges: []quota.Charge{r.charge("units", 2)}})
				if err != nil || !v.Allowed {
					t.Errorf("reserve: %+v %v", v, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !v.Repeat {
					fresh++
				}
				r.tokens["a"] = v.Token()
			})
		}
		wg.Wait()
		if used := r.used("units"); fresh != 1 || used != 2 {
			t.Errorf("%d of 8 were the first, %d units are used; want 1 and 2", fresh, used)
		}
		first := 0
		for range 8 {
			wg.Go(func() {
				s, err := r.s.Settle(context.Background(), r.tokens["a"], quota.Units{"units": 0})
				if err != nil || s.Back != 2 {
					t.Errorf("settle: %+v %v", s, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !s.Repeat {
					first++
				}
			})
		}
		wg.Wait()
		if used := r.used("units"); first != 1 || used != 0 {
			t.Errorf("%d of 8 were the first to settle, %d units are used; want 1 and 0", first, used)
		}
	})
}
