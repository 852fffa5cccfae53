package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// spent reads the spend of the rig's account.
func (r *rig) spent(q quota.SpendQuery) []quota.Spent {
	r.Helper()
	q.Upstream, q.Account = "api", quota.DefaultAccount
	all, err := r.s.Spend(context.Background(), q)
	if err != nil {
		r.Fatalf("spend: %v", err)
	}
	return all
}

// buy reserves units with labels, in a zone.
func (r *rig) buy(id string, units int64, zone *time.Location, labels quota.Labels) {
	r.Helper()
	c := r.charge("units", units)
	c.Zone = zone
	if v, err := r.ask(quota.Request{ID: id, Charges: []quota.Charge{c}, Labels: labels}); err != nil || !v.Allowed {
		r.Fatalf("reserve: %s", tell(v, err))
	}
}

// Spend returns who spent how many units, by day.
func testSpend(t *testing.T, h Harness) {
	needClock(t, h)
	big := ring(window.MaxUnits, time.Hour, time.Minute)
	search, videos := quota.Labels{Method: "search.list", Job: "trends", Region: "DE", Class: "backfill"}, quota.Labels{Method: "videos.list"}

	check := func(t *testing.T, r *rig, q quota.SpendQuery, want ...quota.Spent) {
		t.Helper()
		for i := range want {
			if want[i].Pool.Name == "" {
				want[i].Pool = r.charge("units", 0).Pool
			}
		}
		got := r.spent(q)
		if len(want) == 0 && len(got) == 0 {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spend (-want +got):\n%s", diff)
		}
	}

	t.Run("by_labels_and_pool", func(t *testing.T) {
		r := newRig(t, h, big)
		r.pools["searches"] = r.pools["units"]
		r.buy("", 5, nil, search)
		r.buy("", 1, nil, videos)
		r.buy("", 7, nil, search)
		v, err := r.ask(quota.Request{Charges: []quota.Charge{r.charge("units", 2), r.charge("searches", 1)}, Labels: videos})
		if err != nil || !v.Allowed {
			t.Fatal(tell(v, err))
		}
		check(t, r, quota.SpendQuery{},
			quota.Spent{Pool: r.charge("searches", 0).Pool, Day: "2026-03-02", Labels: videos, Units: 1, Calls: 1},
			quota.Spent{Day: "2026-03-02", Labels: search, Units: 12, Calls: 2},
			quota.Spent{Day: "2026-03-02", Labels: videos, Units: 3, Calls: 2})
	})
	t.Run("refusals_and_repeats_spend_nothing", func(t *testing.T) {
		r := newRig(t, h, ring(10, time.Hour, time.Minute))
		r.buy("a", 5, nil, search)
		r.buy("a", 5, nil, search)
		if got := reserve(6)(r); got != "refused 5/10, retry after 1h1m0s" {
			t.Fatal(got)
		}
		check(t, r, quota.SpendQuery{}, quota.Spent{Day: "2026-03-02", Labels: search, Units: 5, Calls: 1})
	})
	t.Run("by_the_days_of_the_zone", func(t *testing.T) {
		r := newRig(t, h, big)
		pacific, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			t.Fatal(err)
		}
		for _, day := range []struct {
			at    time.Duration
			units int64
		}{
			{20*time.Hour - time.Microsecond, 1}, {20 * time.Hour, 2}, // midnight of the 3rd
			{140*time.Hour - time.Microsecond, 4}, {140 * time.Hour, 8}, // of the 8th, which has 23 hours
			{163*time.Hour - time.Microsecond, 16}, {163 * time.Hour, 32},
		} {
			r.setTime(day.at)
			r.buy("", day.units, pacific, videos)
		}
		want := []quota.Spent{
			{Day: "2026-03-09", Labels: videos, Units: 32, Calls: 1},
			{Day: "2026-03-08", Labels: videos, Units: 24, Calls: 2},
			{Day: "2026-03-07", Labels: videos, Units: 4, Calls: 1},
			{Day: "2026-03-03", Labels: videos, Units: 2, Calls: 1},
			{Day: "2026-03-02", Labels: videos, Units: 1, Calls: 1},
		}
		check(t, r, quota.SpendQuery{}, want...)
		check(t, r, quota.SpendQuery{Since: start.Add(140 * time.Hour)}, want[:2]...)
		check(t, r, quota.SpendQuery{Since: start.Add(140*time.Hour - 1), Until: start.Add(141 * time.Hour)}, want[1:3]...)
		check(t, r, quota.SpendQuery{Until: start}, want[4:]...)
		check(t, r, quota.SpendQuery{Since: start.Add(200 * time.Hour)})
	})
	t.Run("by_hours", func(t *testing.T) {
		r := newRig(t, h, big)
		pacific, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			t.Fatal(err)
		}
		// 2026-11-01 has 25 hours there, from 7:00 UTC to 8:00 UTC of the next day.
		fall := time.Date(2026, 11, 1, 7, 0, 0, 0, time.UTC)
		for _, at := range []time.Duration{-time.Microsecond, 0, 59 * time.Minute, time.Hour, 24 * time.Hour, 25*time.Hour - time.Microsecond, 25 * time.Hour} {
			r.setTime(fall.Add(at).Sub(start))
			r.buy("", 1, pacific, videos)
		}
		r.setTime(fall.Add(25*time.Hour + 40*time.Minute).Sub(start))
		r.buy("late", 5, pacific, search)
		r.setTime(fall.Add(26*time.Hour + 10*time.Minute).Sub(start))
		settle("late", 2)(r)
		hour := func(day string, n, units int) quota.Spent {
			return quota.Spent{Day: day, Hour: fall.Add(time.Duration(n) * time.Hour), Labels: videos, Units: int64(units), Calls: int64(units)}
		}
		late := hour("2026-11-02", 25, 2)
		late.Labels, late.Calls = search, 1
		want := []quota.Spent{late, hour("2026-11-02", 25, 1), hour("2026-11-01", 24, 2), hour("2026-11-01", 1, 1), hour("2026-11-01", 0, 2), hour("2026-10-31", -1, 1)}
		check(t, r, quota.SpendQuery{Hours: true}, want...)
		check(t, r, quota.SpendQuery{Hours: true, Since: fall.Add(2*time.Hour - time.Microsecond)}, want[:4]...)
		check(t, r, quota.SpendQuery{Hours: true, Since: fall.Add(2 * time.Hour)}, want[:3]...)
		late.Hour, late.Day = time.Time{}, "2026-11-02"
		check(t, r, quota.SpendQuery{}, late, quota.Spent{Day: "2026-11-02", Labels: videos, Units: 1, Calls: 1},
			quota.Spent{Day: "2026-11-01", Labels: videos, Units: 5, Calls: 5}, quota.Spent{Day: "2026-10-31", Labels: videos, Units: 1, Calls: 1})
	})
	t.Run("in_hours_of_a_zone_between_them", func(t *testing.T) {
		r := newRig(t, h, big)
		kolkata, err := time.LoadLocation("Asia/Kolkata") // its midnight is 18:30 UTC
		if err != nil {
			t.Fatal(err)
		}
		hour := time.Date(2026, 3, 3, 18, 0, 0, 0, time.UTC)
		for _, minutes := range []int{29, 30} {
			r.setTime(hour.Add(time.Duration(minutes) * time.Minute).Sub(start))
			r.buy("", 1, kolkata, videos)
		}
		check(t, r, quota.SpendQuery{Hours: true},
			quota.Spent{Day: "2026-03-04", Hour: hour, Labels: videos, Units: 1, Calls: 1},
			quota.Spent{Day: "2026-03-03", Hour: hour, Labels: videos, Units: 1, Calls: 1})
	})
	t.Run("of_a_pool_that_was_first_blocked", func(t *testing.T) {
		for name, w := range map[string]window.Limit{"ring": big, "calendar": calendar(window.MaxUnits, window.Month, "UTC")} {
			r := newRig(t, h, w)
			r.setTime(0)
			blockFor(14*24*time.Hour, "units")(r)
			open("units")(r)
			r.buy("", 15, nil, videos)
			if got := r.spent(quota.SpendQuery{}); len(got) != 1 || got[0].Units != 15 {
				t.Errorf("%s: the spend is %+v, want 15 units", name, got)
			}
		}
	})
	t.Run("what_was_spent_before_the_zone_changed_keeps_its_hour", func(t *testing.T) {
		r := newRig(t, h, big)
		pacific, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			t.Fatal(err)
		}
		r.buy("", 3, nil, videos) // at 12:00 UTC
		r.setTime(7*time.Hour - time.Minute)
		r.buy("early", 3, nil, videos)
		r.revision = 2
		r.setTime(7 * time.Hour) // 19:00 UTC is 11:00 there
		r.buy("", 5, pacific, videos)
		r.buy("", 1, pacific, videos)
		settle("early", 2)(r)
		r.revision = 3
		r.setTime(8 * time.Hour)
		r.buy("", 7, nil, videos)
		hour := func(day string, n int, units, calls int64) quota.Spent {
			return quota.Spent{Day: day, Hour: start.Add(time.Duration(n) * time.Hour), Labels: videos, Units: units, Calls: calls}
		}
		check(t, r, quota.SpendQuery{Hours: true}, hour("2026-03-02", 8, 7, 1), hour("2026-03-02", 7, 6, 2),
			hour("2026-03-02", 6, 2, 1), hour("2026-03-02", 0, 3, 1))
	})
	t.Run("settling_corrects_the_day_of_the_reservation", func(t *testing.T) {
		r := newRig(t, h, big)
		r.setTime(12*time.Hour - time.Minute)
		r.buy("down", 10, nil, search)
		r.buy("up", 10, nil, videos)
		r.buy("unsent", 10, nil, quota.Labels{Job: "unsent"})
		r.setTime(12*time.Hour + time.Minute) // the next day
		for _, s := range []string{settle("down", 4)(r), settle("up", 15)(r), settle("unsent", 0)(r), settle("up", 20)(r)} {
			if s == "bad input" {
				t.Fatal("settle: bad input")
			}
		}
		check(t, r, quota.SpendQuery{},
			quota.Spent{Day: "2026-03-02", Labels: videos, Units: 15, Calls: 1},
			quota.Spent{Day: "2026-03-02", Labels: search, Units: 4, Calls: 1})
	})
	t.Run("corrections_keep_their_reason", func(t *testing.T) {
		r := newRig(t, h, big)
		r.buy("", 10, nil, search)
		why := quota.Labels{Reason: "the console shows 4"}
		r.record(quota.Request{Charges: []quota.Charge{r.charge("units", -6)}, Labels: why})
		missed := quota.Labels{Method: "videos.list", Reason: "made while the ledger was down"}
		r.record(quota.Request{Charges: []quota.Charge{r.charge("units", 3)}, Labels: missed, At: start.Add(-24 * time.Hour)})
		check(t, r, quota.SpendQuery{},
			quota.Spent{Day: "2026-03-02", Labels: search, Units: 10, Calls: 1},
			quota.Spent{Day: "2026-03-02", Labels: why, Units: -6, Calls: 1},
			quota.Spent{Day: "2026-03-01", Labels: missed, Units: 3, Calls: 1})
	})
	t.Run("settling_takes_nothing_from_a_correction", func(t *testing.T) {
		r := newRig(t, h, big)
		r.buy("unsent", 10, nil, search)
		why := quota.Labels{Method: "search.list", Job: "trends", Region: "DE", Class: "backfill", Reason: "the console shows 4"}
		r.record(quota.Request{Charges: []quota.Charge{r.charge("units", -6)}, Labels: why}) // more than that hour will have
		settle("unsent", 0)(r)
		check(t, r, quota.SpendQuery{}, quota.Spent{Day: "2026-03-02", Labels: why, Units: -6, Calls: 1})
	})
	t.Run("other_accounts_are_others", func(t *testing.T) {
		r := newRig(t, h, big)
		c := r.charge("units", 5)
		c.Pool.Account = "staging"
		r.reserve(c)
		check(t, r, quota.SpendQuery{})
		if used := r.used("units"); used != 0 {
			t.Errorf("the other account's units are ours: %d", used)
		}
	})
	t.Run("kept_for_30_days", func(t *testing.T) {
		r := newRig(t, h, big)
		for day := range 60 {
			r.setTime(time.Duration(day) * 24 * time.Hour)
			r.buy("", int64(day+1), nil, videos)
		}
		all := r.spent(quota.SpendQuery{})
		if len(all) < storekit.SpendDays {
			t.Fatalf("%d days are left of 60, want at least %d", len(all), storekit.SpendDays)
		}
		for i, s := range all {
			if s.Units != int64(60-i) {
				t.Fatalf("%d days ago %d units were spent, want %d", i, s.Units, 60-i)
			}
		}
	})
	t.Run("too_many_labels_are_other", func(t *testing.T) {
		r := newRig(t, h, big)
		const more = 10
		charges := storekit.MaxSpendLabels + more
		for i := range charges {
			r.buy("", 1, nil, quota.Labels{Job: fmt.Sprint("job", i)})
		}
		r.buy("", 1, nil, quota.Labels{Job: "job0"}) // known: still told apart
		var units, other int64
		all := r.spent(quota.SpendQuery{})
		for _, s := range all {
			units += s.Units
			if s.Labels == quota.OtherLabels {
				other = s.Units
			}
		}
		if len(all) != storekit.MaxSpendLabels+1 || other != more || units != int64(charges)+1 {
			t.Errorf("%d sets of labels, %d units, %d of them other; want %d, %d, %d",
				len(all), units, other, storekit.MaxSpendLabels+1, charges+1, more)
		}
	})
}
