package window

import (
	"testing"
	"time"
)

func TestCounter(t *testing.T) {
	const s = time.Second
	spec := normal(t, Spec{Per: 60 * s, Algorithm: Estimate})

	t.Run("the_worked_example", func(t *testing.T) {
		// 1745000145 is 45 s into its minute: a quarter of the previous one is
		// still in the window. 8 x 0.25 + 3 = 5.
		now := At(time.Unix(1745000145, 0))
		c := NewCounter(spec)
		c.Add(now.Add(-60*s), 8)
		c.Add(now, 3)
		if used := c.Used(now); used != 5 {
			t.Errorf("the estimate is %d, want 5", used)
		}
		if c.Take(now, 1, 5) {
			t.Error("granted at an estimate of 5 of 5")
		}
		// The previous 8 count as 1 when an eighth of them is left.
		four := now.Add(7500 * time.Millisecond)
		if free := c.Free(now, 1, 5); free != four {
			t.Errorf("free %s later, want 7.5s", free.Sub(now))
		}
		if before := four.Add(-spec.Resolution()); c.Used(before) != 5 || c.Take(before, 1, 5) {
			t.Errorf("one step before that the estimate is %d, want 5", c.Used(before))
		}
		if used := c.Used(four); used != 4 {
			t.Errorf("7.5s later the estimate is %d, want 4", used)
		}
		if !c.Take(four, 1, 5) {
			t.Error("refused at an estimate of 4 of 5")
		}
	})

	for _, c := range []struct {
		name string
		rows []row
	}{
		{"the_previous_window_fades", []row{
			{at: 0, do: "take", n: 10, used: 10},
			{at: 59 * s, do: "refuse", n: 1, free: 66 * s, used: 10},
			{at: 60 * s, do: "refuse", n: 1, free: 66 * s, used: 10},
			{at: 66 * s, do: "take", n: 1, used: 10},
			{at: 90 * s, do: "take", n: 4, used: 10},
			{at: 90 * s, do: "refuse", n: 6, free: 132 * s, used: 10}, // 5 then, when a fifth of them has faded
			{at: 132 * s, do: "take", n: 6, used: 10},
		}},
		{"a_burst_at_the_boundary_passes_the_limit_and_that_is_known", []row{
			{at: 59 * s, do: "take", n: 10, used: 10},
			{at: 114 * s, do: "take", n: 9, used: 10}, // 19 in the last 60 s
		}},
		{"the_whole_limit_waits_for_two_windows", []row{
			{at: 1 * s, do: "take", n: 1, used: 1},
			{at: 2 * s, do: "refuse", n: 10, free: 120 * s, used: 1},
			{at: 61 * s, do: "take", n: 1, used: 2},
			{at: 62 * s, do: "refuse", n: 10, free: 180 * s, used: 2},
			{at: 180 * s, do: "take", n: 10, used: 10},
		}},
		{"two_windows_later_nothing_is_left", []row{
			{at: 1 * s, do: "take", n: 10, used: 10},
			{at: 120 * s, do: "take", n: 10, used: 10},
			{at: 600 * s, do: "take", n: 10, used: 10},
		}},
		{"a_clock_that_steps_back_counts_as_the_latest", []row{
			{at: 30 * s, do: "take", n: 8, used: 8},
			{at: 90 * s, do: "take", n: 1, used: 5},
			{at: 70 * s, do: "look", used: 5},
			{at: 10 * s, do: "take", n: 5, used: 10},
			{at: 119 * s, do: "look", used: 7},
		}},
		{"charges_of_the_past_count_in_their_own_window", []row{
			{at: 90 * s, do: "take", n: 1, used: 1},
			{at: 90 * s, do: "add", n: 8, past: 0, used: 5},
			{at: 90 * s, do: "ignore", n: 8, past: -1 * s, used: 5},
			{at: 90 * s, do: "add", n: 2, past: 60 * s, used: 7},
		}},
		{"units_go_back_to_the_window_they_came_from", []row{
			{at: 0, do: "take", n: 8, used: 8},
			{at: 90 * s, do: "take", n: 3, used: 7},
			{at: 90 * s, do: "give", n: 2, past: 0, used: 6},
			{at: 90 * s, do: "give", n: 1, past: 90 * s, used: 5},
			{at: 90 * s, do: "keep", n: 1, past: 120 * s, used: 5},
			{at: 120 * s, do: "keep", n: 6, past: 0, used: 2},
		}},
		{"a_correction_forgets_the_oldest_first", []row{
			{at: 0, do: "take", n: 8, used: 8},
			{at: 90 * s, do: "take", n: 3, used: 7},
			{at: 90 * s, do: "forget", n: 9, used: 2},
			{at: 90 * s, do: "forget", n: 9, used: 0},
		}},
		{"all_that_was_used_moves_on_a_rebase", []row{
			{at: 6000 * s, do: "take", n: 8, used: 8},
			{at: 6090 * s, do: "take", n: 3, used: 7},
			{at: 5 * s, do: "rebase", used: 7},
			{at: 90 * s, do: "look", used: 4},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, NewCounter(spec), c.rows) })
	}
	t.Run("the_largest_numbers_do_not_overflow", func(t *testing.T) {
		c := NewCounter(normal(t, Spec{Per: MaxPer, Algorithm: Estimate}))
		at := At(time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC))
		c.Add(at, MaxUnits)
		c.Add(at, MaxUnits)
		later := at.Add(MaxPer)
		used := c.Used(later)
		if used <= 0 || used > 2*maxCounter {
			t.Errorf("used %d", used)
		}
		if free := c.Free(later, maxCounter, maxCounter); free <= later || free.Sub(later) > 2*MaxPer {
			t.Errorf("free %s later", free.Sub(later))
		}
	})
}
