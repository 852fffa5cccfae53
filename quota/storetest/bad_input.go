package storetest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 10: bad input is a clear error, and changes nothing.
func testBadInput(t *testing.T, h Harness) {
	r := newRig(t, h, ring(100, 24*time.Hour, time.Minute))
	r.pools["searches"] = r.pools["units"]
	r.pools["none"] = nil
	reserve(5)(r)
	reserveOf("searches", 5)(r)
	before := r.look("units", "searches")
	beforeSpend := r.spent(quota.SpendQuery{})

	one := r.charge("units", 1)
	staging := one
	staging.Pool.Account = "staging"
	negative, huge := one, one
	negative.Windows = append(negative.Windows[:0:0], one.Windows...)
	negative.Windows[0].Limit = -1
	huge.Windows = append(huge.Windows[:0:0], one.Windows...)
	huge.Windows[0].Limit = 1 << 32 // its slots cannot hold that
	nameless, upstreamless, accountless := one, one, one
	nameless.Pool.Name = ""
	upstreamless.Pool.Upstream = ""
	accountless.Pool.Account = ""
	member, misnamed := one, r.charge("searches", 1)
	member.Pool = quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Key: "key"}
	misnamed.Pool.Name = "a\nb"

	for _, bad := range []struct {
		name       string
		req        quota.Request
		recordable bool // as a correction it makes sense
	}{
		{name: "no_charges"},
		{name: "negative_units", req: quota.Request{Charges: []quota.Charge{r.charge("units", -1)}}, recordable: true},
		{name: "least_units", req: quota.Request{Charges: []quota.Charge{r.charge("units", math.MinInt64)}}},
		{name: "enormous_units", req: quota.Request{Charges: []quota.Charge{r.charge("units", window.MaxUnits+1)}}},
		{name: "most_units", req: quota.Request{Charges: []quota.Charge{r.charge("units", math.MaxInt64)}}},
		{name: "enormous_in_the_second_charge", req: quota.Request{Charges: []quota.Charge{one, r.charge("searches", window.MaxUnits+1)}}},
		{name: "no_windows", req: quota.Request{Charges: []quota.Charge{r.charge("none", 1)}}},
		{name: "no_windows_in_the_second_charge", req: quota.Request{Charges: []quota.Charge{one, r.charge("none", 1)}}},
		{name: "negative_limit", req: quota.Request{Charges: []quota.Charge{negative}}},
		{name: "enormous_limit", req: quota.Request{Charges: []quota.Charge{huge}}},
		{name: "no_pool", req: quota.Request{Charges: []quota.Charge{nameless}}},
		{name: "no_upstream", req: quota.Request{Charges: []quota.Charge{upstreamless}}},
		{name: "no_account", req: quota.Request{Charges: []quota.Charge{accountless}}},
		{name: "a_pool_and_a_family's_member", req: quota.Request{Charges: []quota.Charge{one, member}}},
		{name: "newline_in_the_second_pool", req: quota.Request{Charges: []quota.Charge{one, misnamed}}},
		{name: "one_pool_twice", req: quota.Request{Charges: []quota.Charge{one, one}}},
		{name: "two_accounts", req: quota.Request{Charges: []quota.Charge{one, staging}}},
		{name: "id_of_10_kB", req: quota.Request{ID: strings.Repeat("x", 10_000), Charges: []quota.Charge{one}}},
		{name: "id_of_129_bytes", req: quota.Request{ID: strings.Repeat("x", 129), Charges: []quota.Charge{one}}},
		{name: "id_with_a_newline", req: quota.Request{ID: "a\nb", Charges: []quota.Charge{one}}},
		{name: "id_with_a_nul", req: quota.Request{ID: "a\x00b", Charges: []quota.Charge{one}}},
		{name: "id_with_a_delete", req: quota.Request{ID: "a\x7fb", Charges: []quota.Charge{one}}},
		{name: "id_that_is_no_text", req: quota.Request{ID: "a\xffb", Charges: []quota.Charge{one}}},
		{name: "label_with_a_newline", req: quota.Request{Labels: quota.Labels{Method: "a\nb"}, Charges: []quota.Charge{one}}},
		{name: "label_of_10_kB", req: quota.Request{Labels: quota.Labels{Reason: strings.Repeat("x", 10_000)}, Charges: []quota.Charge{one}}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			v, err := r.s.Reserve(context.Background(), bad.req)
			if !errors.Is(err, quota.ErrBadInput) || v.Allowed {
				t.Errorf("reserve: %v (allowed %t), want bad input", err, v.Allowed)
			}
			if bad.recordable {
				return
			}
			if _, err := r.s.Record(context.Background(), bad.req); !errors.Is(err, quota.ErrBadInput) {
				t.Errorf("record: %v, want bad input", err)
			}
		})
	}
	for _, bad := range []struct {
		name string
		req  quota.BlockRequest
	}{
		{"block_of_nothing", quota.BlockRequest{For: time.Hour}},
		{"block_without_a_time", quota.BlockRequest{Charges: []quota.Charge{one}}},
		{"block_for_less_than_nothing", quota.BlockRequest{Charges: []quota.Charge{one}, For: -time.Hour}},
		{"block_of_two_accounts", quota.BlockRequest{Charges: []quota.Charge{one, staging}, For: time.Hour}},
		{"block_without_windows", quota.BlockRequest{Charges: []quota.Charge{r.charge("none", 0)}, For: time.Hour}},
		{"block_for_ever", quota.BlockRequest{Charges: []quota.Charge{one}, For: math.MaxInt64}},
		{"block_with_a_reason_of_10_kB", quota.BlockRequest{Charges: []quota.Charge{one}, For: time.Hour, Reason: strings.Repeat("x", 10_000)}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			if err := r.s.Block(context.Background(), bad.req); !errors.Is(err, quota.ErrBadInput) {
				t.Errorf("block: %v, want bad input", err)
			}
		})
	}
	t.Run("cancelled_context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		good := quota.Request{ID: "cancelled", Charges: []quota.Charge{one}}
		_, reserve := r.s.Reserve(ctx, good)
		_, look := r.s.Look(ctx, good.Charges)
		_, record := r.s.Record(ctx, good)
		_, spend := r.s.Spend(ctx, quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
		for op, err := range map[string]error{
			"reserve": reserve, "look": look, "spend": spend, "record": record,
			"block": r.s.Block(ctx, quota.BlockRequest{Charges: good.Charges, For: time.Hour}),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want %v", op, err, context.Canceled)
			}
		}
	})

	after := r.look("units", "searches")
	for i := range after { // the clock may have gone on
		before[i].Now, after[i].Now = time.Time{}, time.Time{}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("bad input changed the pages (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(beforeSpend, r.spent(quota.SpendQuery{})); diff != "" {
		t.Errorf("bad input changed the spend (-before +after):\n%s", diff)
	}
	if pages, err := r.s.Look(context.Background(), []quota.Charge{staging}); err != nil || pages[0].Known {
		t.Errorf("bad input left a page behind: %+v %v", pages, err)
	}
	for _, id := range []string{"a b", "~", strings.Repeat("x", 128), `"'\{}:/`} {
		if got := reserveAs(id, 1)(r); !strings.HasPrefix(got, "granted") {
			t.Errorf("id %.10q: %s, want it granted", id, got)
		}
		if got := reserveAs(id, 1)(r); got != "granted again" {
			t.Errorf("id %.10q: %s, want it granted again", id, got)
		}
	}
}
