package window

import (
	"testing"
	"time"
)

func TestCalendar(t *testing.T) {
	const s, h = time.Second, time.Hour
	spec := normal(t, Spec{Period: Day, Lag: 60 * s})
	for _, c := range []struct {
		name string
		rows []row
	}{
		{"a_period_admits_the_limit_and_starts_afresh", []row{
			{at: 1 * h, do: "take", n: 10, used: 10},
			{at: 23 * h, do: "refuse", n: 1, free: 24*h + 60*s, used: 10},
			{at: 24*h + 60*s, do: "take", n: 10, used: 10},
			{at: 24*h + 61*s, do: "refuse", n: 10, free: 48*h + 60*s, used: 10},
			{at: 100 * h, do: "take", n: 10, used: 10},
		}},
		{"until_lag_after_a_boundary_the_period_before_needs_room_too", []row{
			{at: 1 * h, do: "take", n: 8, used: 8},
			{at: 24 * h, do: "refuse", n: 3, free: 24*h + 60*s, used: 8},
			{at: 24*h + 59*s, do: "take", n: 2, used: 10}, // counts on both sides
			{at: 24*h + 59*s, do: "refuse", n: 1, free: 24*h + 60*s, used: 10},
			{at: 24*h + 60*s, do: "look", used: 2},
			{at: 24*h + 60*s, do: "take", n: 8, used: 10},
		}},
		{"a_charge_just_before_a_boundary_counts_after_it", []row{
			{at: 24*h - 61*s, do: "take", n: 1, used: 1}, // on one side only
			{at: 24*h - 60*s, do: "take", n: 3, used: 4},
			{at: 24 * h, do: "look", used: 4},
			{at: 24*h + 60*s, do: "look", used: 3},
			{at: 47 * h, do: "refuse", n: 8, free: 48*h + 60*s, used: 3},
		}},
		{"full_of_late_charges_it_waits_for_the_period_after", []row{
			{at: 24*h - 30*s, do: "take", n: 10, used: 10},
			{at: 24*h - 29*s, do: "refuse", n: 1, free: 48*h + 60*s, used: 10},
			{at: 24*h + 60*s, do: "refuse", n: 1, free: 48*h + 60*s, used: 10},
			{at: 48 * h, do: "refuse", n: 1, free: 48*h + 60*s, used: 10},
			{at: 48*h + 60*s, do: "take", n: 10, used: 10},
		}},
		{"a_period_in_which_nothing_was_written_still_decides", []row{
			{at: 24*h - 30*s, do: "take", n: 10, used: 10},
			{at: 48*h + 59*s, do: "refuse", n: 1, free: 48*h + 60*s, used: 10},
			{at: 48*h + 60*s, do: "take", n: 1, used: 1},
		}},
		{"a_clock_that_steps_back_stays_in_the_later_period", []row{
			{at: 1 * h, do: "take", n: 9, used: 9},
			{at: 25 * h, do: "take", n: 4, used: 4},
			{at: 24*h + 1*s, do: "look", used: 4}, // and past its lag
			{at: 23 * h, do: "take", n: 6, used: 10},
			{at: 23 * h, do: "refuse", n: 1, free: 48*h + 60*s, used: 10},
		}},
		{"charges_of_the_past_count_in_their_own_period", []row{
			{at: 24*h + 10*s, do: "take", n: 1, used: 1},
			{at: 24*h + 10*s, do: "add", n: 5, past: 3 * h, used: 6}, // the period before decides still
			{at: 24*h + 10*s, do: "add", n: 2, past: 24*h - 5*s, used: 8},
			{at: 24*h + 10*s, do: "ignore", n: 2, past: -61 * s, used: 8},
			{at: 24*h + 10*s, do: "add", n: 1, past: -60 * s, used: 9},
			{at: 24*h + 60*s, do: "take", n: 1, used: 4},
			{at: 24*h + 61*s, do: "ignore", n: 5, past: 3 * h, used: 4},
			{at: 24*h + 61*s, do: "add", n: 1, past: 24*h - 60*s, used: 5},
		}},
		{"units_go_back_to_the_period_they_came_from", []row{
			{at: 1 * h, do: "take", n: 4, used: 4},
			{at: 24*h - 30*s, do: "take", n: 5, used: 9},
			{at: 24*h - 20*s, do: "give", n: 1, past: 24*h - 30*s, used: 8},
			{at: 24*h + 10*s, do: "take", n: 2, used: 10},
			{at: 24*h + 20*s, do: "give", n: 2, past: 1 * h, used: 8},
			{at: 24*h + 20*s, do: "give", n: 1, past: 24*h + 10*s, used: 7},
			{at: 24*h + 60*s, do: "look", used: 5},
			{at: 24*h + 60*s, do: "keep", n: 1, past: 1 * h, used: 5},
			{at: 24*h + 60*s, do: "give", n: 4, past: 24*h - 30*s, used: 1},
			{at: 24*h + 60*s, do: "keep", n: 1, past: 49 * h, used: 1},
		}},
		{"a_correction_never_leaves_more_for_the_next_period", []row{
			{at: 1 * h, do: "take", n: 2, used: 2},
			{at: 24*h - 30*s, do: "take", n: 5, used: 7},
			{at: 24*h - 20*s, do: "forget", n: 4, used: 3},
			{at: 24*h + 60*s, do: "look", used: 3},
			{at: 24*h + 60*s, do: "forget", n: 99, used: 0},
		}},
		{"all_that_was_used_moves_on_a_rebase", []row{
			{at: 9000 * h, do: "take", n: 7, used: 7},
			{at: 24*h - 10*s, do: "rebase", used: 7},
			{at: 24*h + 60*s, do: "look", used: 7}, // it was near a boundary
			{at: 48*h + 60*s, do: "look", used: 0},
		}},
		{"what_decides_still_moves_on_a_rebase", []row{
			{at: 23 * h, do: "take", n: 7, used: 7},
			{at: 24 * h, do: "take", n: 1, used: 8},
			{at: -9000 * h, do: "rebase", used: 8},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, NewCalendar(spec), c.rows) })
	}

	t.Run("without_lag_a_boundary_is_sharp", func(t *testing.T) {
		play(t, NewCalendar(normal(t, Spec{Period: Day, Lag: -1})), []row{
			{at: 24*h - time.Microsecond, do: "take", n: 10, used: 10},
			{at: 24*h - time.Microsecond, do: "refuse", n: 1, free: 24 * h, used: 10},
			{at: 24 * h, do: "take", n: 10, used: 10},
		})
	})
	t.Run("what_comes_back_next", func(t *testing.T) {
		c := NewCalendar(spec)
		c.Take(in(1*h), 2, limit)
		c.Take(in(24*h-30*s), 3, limit)
		for _, want := range []struct {
			at   time.Duration
			n    int64
			next time.Duration
		}{
			{24*h - 29*s, 2, 24*h + 60*s},
			{24 * h, 2, 24*h + 60*s},
			{24*h + 60*s, 3, 48*h + 60*s},
		} {
			if n, at := Next(c, in(want.at)); n != want.n || at != in(want.next) {
				t.Errorf("at %s: %d at %s, want %d at %s", want.at, n, at.Sub(epoch), want.n, want.next)
			}
		}
	})
	t.Run("all_late_comes_back_after_the_next_period", func(t *testing.T) {
		c := NewCalendar(spec)
		c.Take(in(24*h-30*s), 3, limit)
		if n, at := Next(c, in(24*h-29*s)); n != 3 || at != in(48*h+60*s) {
			t.Errorf("%d at %s, want 3 at 48h1m", n, at.Sub(epoch))
		}
	})
	t.Run("resets_where_the_zone_says", func(t *testing.T) {
		c := NewCalendar(normal(t, Spec{Period: Day, Zone: zone(t, "America/Los_Angeles")}))
		if at, want := c.Reset(on(t, "2026-11-01T12:00:00-08:00")), on(t, "2026-11-02T00:00:00-08:00"); at != want {
			t.Errorf("%s, want %s", at.Time(), want.Time())
		}
	})
	t.Run("rules_that_change_under_it_free_nothing", func(t *testing.T) {
		// The stored period ends earlier than the zone's rules now say, as
		// after an update of the zone's data.
		c := NewCalendar(spec)
		c.Take(in(h), 10, limit)
		c.end = in(20 * h)
		if c.Take(in(21*h), 1, limit) {
			t.Error("granted within the same day")
		}
		if free := c.Free(in(21*h), 1, limit); free != in(24*h+60*s) {
			t.Errorf("free at %s, want 24h1m", free.Sub(epoch))
		}
	})
}
