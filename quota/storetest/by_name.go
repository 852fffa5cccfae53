package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Units are settled by the name of the pool, whatever the order of the charges.
func testSettleByName(t *testing.T, h Harness) {
	hour := []window.Limit{ring(10_000, time.Hour, time.Minute)}
	pools := map[string][]window.Limit{"requests": {ring(10, time.Hour, time.Minute)}, "tokens": hour}
	run(t, h, []timeline{
		{"in_any_order_of_the_charges", hour, pools, []row{
			{0, reserveThese("a", "tokens", 5000, "requests", 1), "granted 1/10"},
			{0, reserveThese("b", "requests", 1, "tokens", 4000), "granted 2/10"},
			{0, settleTo("a", quota.Units{"requests": 1, "tokens": 812}), "back 4188"},
			{0, settleTo("b", quota.Units{"requests": 1, "tokens": 12}), "back 3988"},
			{0, looks("requests", "tokens"), "2; 824"},
		}},
		{"nil_gives_all_back", hour, pools, []row{
			{0, reserveThese("a", "tokens", 5000, "requests", 1), "granted 1/10"},
			{0, settleTo("a", nil), "back 5001"},
			{0, looks("requests", "tokens"), "0; 0"},
			{0, settleTo("a", quota.Units{"requests": 1, "tokens": 5000}), "back 5001, again"},
		}},
		{"wrong_names_are_bad_input_and_change_nothing", hour, pools, []row{
			{0, reserveThese("a", "tokens", 5000, "requests", 1), "granted 1/10"},
			{0, settleTo("a", quota.Units{}), "bad input"},
			{0, settleTo("a", quota.Units{"tokens": 812}), "bad input"},                            // one is missing
			{0, settleTo("a", quota.Units{"tokens": 812, "units": 1}), "bad input"},                // another one instead
			{0, settleTo("a", quota.Units{"tokens": 812, "requests": 1, "units": 0}), "bad input"}, // one too many
			{0, settleTo("a", quota.Units{"Tokens": 812, "requests": 1}), "bad input"},             // a misspelling
			{0, settleTo("a", quota.Units{"tokens": -1, "requests": 1}), "bad input"},              // less than nothing
			{0, settleTo("a", quota.Units{"tokens": 812, "requests": 1 << 53}), "bad input"},       // enormous
			{0, looks("requests", "tokens"), "1; 5000"},
			{0, settleTo("a", quota.Units{"tokens": 812, "requests": 1}), "back 4188"},
			{0, settleTo("a", quota.Units{"tokens": 812}), "bad input"}, // also where it would be a repeat
		}},
	})
}

// reserveThese reserves units of two pools in this order.
func reserveThese(id, first string, units int64, second string, more int64) action {
	return func(r *rig) string {
		return tell(r.ask(quota.Request{ID: id, Charges: []quota.Charge{r.charge(first, units), r.charge(second, more)}}))
	}
}

// Record returns the units that it has recorded, and the spend shows the same units. A
// correction larger than the used units counts only what a window gave back.
func testRecorded(t *testing.T, h Harness) {
	hour := ring(1000, time.Hour, time.Minute)
	three := []window.Limit{ring(1000, 10*time.Second, time.Second), hour, calendar(1000, window.Day, "UTC")}
	searches := map[string][]window.Limit{"searches": {hour}}
	run(t, h, []timeline{
		{"no_more_than_was_used", []window.Limit{hour}, nil, []row{
			{0, reserve(248), "granted 248/1000"},
			{0, recorded("", -999_999, 0), "units -248"},
			{0, looks("units"), "0"},
			{0, booked, "units 0 in 2 calls"},
			{0, recorded("", -5, 0), "units 0"},
			{0, booked, "units 0 in 3 calls"},
		}},
		{"part_of_it", []window.Limit{hour}, nil, []row{
			{0, reserve(248), "granted 248/1000"},
			{0, recorded("", -48, 0), "units -48"},
			{0, recorded("", 10, 0), "units 10"},
			{0, booked, "units 210 in 3 calls"},
		}},
		{"nothing_of_a_pool_that_nobody_used", []window.Limit{hour}, nil, []row{
			{0, recorded("", -7, 0), "units 0"},
			{0, booked, "units 0 in 1 calls"},
		}},
		{"the_most_that_any_window_gave", three, nil, []row{
			{0, reserve(5), "granted 5/1000"},
			{20 * time.Second, reserve(2), "granted 7/1000"},
			{20 * time.Second, looks("units"), "2, 7, 7"},
			{20 * time.Second, recorded("", -100, 0), "units -7"},
			{20 * time.Second, looks("units"), "0, 0, 0"},
			{20 * time.Second, booked, "units 0 in 3 calls"},
		}},
		{"a_log", []window.Limit{exact(1000, time.Hour)}, nil, []row{
			{0, reserve(5), "granted 5/1000"},
			{time.Minute, reserve(5), "granted 10/1000"},
			{time.Minute, recorded("", -100, 0), "units -10"},
			{time.Minute, booked, "units 0 in 3 calls"},
		}},
		{"a_counter_of_both_its_windows", []window.Limit{counter(1000, time.Minute)}, nil, []row{
			{0, reserve(5), "granted 5/1000"},
			{time.Minute, reserve(5), "granted 10/1000"},
			{time.Minute, recorded("", -100, 0), "units -10"},
			{time.Minute, looks("units"), "0"},
		}},
		{"a_calendar_of_the_period_before_while_that_counts", []window.Limit{calendar(1000, window.Minute, "UTC")}, nil, []row{
			{30 * time.Second, reserve(9), "granted 9/1000"},
			{60 * time.Second, reserve(2), "granted 11/1000"}, // within the lag of 1s: of both minutes
			{60 * time.Second, recorded("", -100, 0), "units -11"},
		}},
		{"a_calendar_without_the_period_before", []window.Limit{calendar(1000, window.Minute, "UTC")}, nil, []row{
			{30 * time.Second, reserve(9), "granted 9/1000"},
			{90 * time.Second, reserve(2), "granted 2/1000"},
			{90 * time.Second, recorded("", -100, 0), "units -2"},
			{90 * time.Second, looks("units"), "0"},
		}},
		{"an_id_says_the_same_again", []window.Limit{hour}, searches, []row{
			{0, reserve(248), "granted 248/1000"},
			{0, recorded("a", -999_999, 0), "units -248"},
			{0, reserve(3), "granted 3/1000"},
			{0, recorded("a", -999_999, 0), "units -248"}, // and gives nothing back now
			{0, looks("units"), "3"},
			{0, recorded("a", -248, 0), "bad input"}, // other charges
			{0, recorded("b", 5, 0), "units 5"},
			{0, recorded("b", 5, 0), "units 5"},
			{0, looks("units"), "8"},
		}},
		{"each_pool_by_itself", []window.Limit{hour}, searches, []row{
			{0, reserve(4), "granted 4/1000"},
			{0, reserveOf("searches", 1), "granted 1/1000"},
			{0, recorded("a", -3, -9), "units -3, searches -1"},
			{0, looks("units", "searches"), "1; 0"},
			{0, recorded("a", -3, -9), "units -3, searches -1"},
			{0, looks("units", "searches"), "1; 0"},
		}},
		{"a_full_bucket_gives_nothing", []window.Limit{ring(1<<31-1, time.Hour, time.Minute)}, nil, []row{
			{0, record(1<<31 - 1), "ok"},
			{0, record(1<<31 - 1), "ok"},
			{0, record(1<<31 - 1), "ok"}, // it has lost count
			{0, recorded("", -5, 0), "units 0"},
		}},
	})
	t.Run("of_a_family's_member", func(t *testing.T) {
		if !h.Families {
			t.Skip("the store keeps no families")
		}
		r := newRig(t, h, hour)
		c := r.charge("units", 4)
		c.Pool = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "a"}
		r.reserve(c)
		c.Units = -9
		got, err := r.s.Record(context.Background(), quota.Request{Charges: []quota.Charge{c}})
		if err != nil || len(got) != 1 || got["client"] != -4 {
			t.Errorf("recorded %v (%v), want -4 of client", got, err)
		}
	})
}

// recorded records units of the pool "units", and of "searches" unless they are 0. Its
// outcome is the recorded units: "units -3, searches -1".
func recorded(id string, units, searches int64) action {
	return func(r *rig) string {
		req := quota.Request{ID: id, Charges: []quota.Charge{r.charge("units", units)}}
		if searches != 0 {
			req.Charges = append(req.Charges, r.charge("searches", searches))
		}
		got, err := r.s.Record(context.Background(), req)
		if err != nil {
			return fault(err)
		}
		if len(got) != len(req.Charges) {
			return fmt.Sprintf("%d charges", len(got))
		}
		said := fmt.Sprintf("units %d", got["units"])
		if searches != 0 {
			said += fmt.Sprintf(", searches %d", got["searches"])
		}
		return said
	}
}

// booked returns the spend of the pool "units" in words.
func booked(r *rig) string {
	var units, calls int64
	for _, s := range r.spent(quota.SpendQuery{}) {
		units, calls = units+s.Units, calls+s.Calls
	}
	return fmt.Sprintf("units %d in %d calls", units, calls)
}
