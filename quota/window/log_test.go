package window

import (
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	const s, us = time.Second, time.Microsecond
	spec := normal(t, Spec{Per: 60 * s, Algorithm: Exact})
	for _, c := range []struct {
		name string
		rows []row
	}{
		{"capacity_returns_to_the_microsecond", []row{
			{at: 7 * us, do: "take", n: 10, used: 10},
			{at: 60*s + 6*us, do: "refuse", n: 1, free: 60*s + 7*us, used: 10},
			{at: 60*s + 7*us, do: "take", n: 10, used: 10},
		}},
		{"a_heavy_call_waits_for_its_own_weight", []row{
			{at: 1 * s, do: "take", n: 2, used: 2},
			{at: 2 * s, do: "take", n: 3, used: 5},
			{at: 3 * s, do: "take", n: 5, used: 10},
			{at: 4 * s, do: "refuse", n: 2, free: 61 * s, used: 10},
			{at: 4 * s, do: "refuse", n: 3, free: 62 * s, used: 10},
			{at: 4 * s, do: "refuse", n: 6, free: 63 * s, used: 10},
			{at: 61 * s, do: "refuse", n: 6, free: 63 * s, used: 8},
			{at: 63 * s, do: "take", n: 10, used: 10},
		}},
		{"a_clock_that_steps_back_counts_as_the_latest", []row{
			{at: 59 * s, do: "take", n: 4, used: 4},
			{at: 5 * s, do: "take", n: 6, used: 10},
			{at: 118 * s, do: "refuse", n: 1, free: 119 * s, used: 10},
			{at: 119 * s, do: "take", n: 10, used: 10},
		}},
		{"a_step_back_behind_a_gift_counts_as_the_gift", []row{
			{at: 1 * s, do: "take", n: 10, used: 10},
			{at: 61 * s, do: "keep", n: 1, past: 30 * s, used: 0}, // writes nothing but the time
			{at: 2 * s, do: "take", n: 10, used: 10},
			{at: 62 * s, do: "refuse", n: 1, free: 121 * s, used: 10},
		}},
		{"charges_of_the_past_count_at_their_own_instant", []row{
			{at: 61 * s, do: "take", n: 4, used: 4},
			{at: 61 * s, do: "add", n: 9, past: 20 * s, used: 13},
			{at: 61 * s, do: "add", n: 1, past: 30 * s, used: 14},
			{at: 61 * s, do: "ignore", n: 9, past: 1 * s, used: 14},
			{at: 62 * s, do: "refuse", n: 1, free: 80 * s, used: 14},
			{at: 80 * s, do: "take", n: 1, used: 6},
			{at: 90 * s, do: "look", used: 5},
		}},
		{"units_go_back_to_the_instant_they_came_from", []row{
			{at: 1 * s, do: "take", n: 4, used: 4},
			{at: 2 * s, do: "take", n: 6, used: 10},
			{at: 3 * s, do: "give", n: 3, past: 1 * s, used: 7},
			{at: 3 * s, do: "keep", n: 1, past: 1*s + us, used: 7},
			{at: 3 * s, do: "give", n: 1, past: 1 * s, used: 6},
			{at: 3 * s, do: "keep", n: 1, past: 1 * s, used: 6},
			{at: 62 * s, do: "keep", n: 6, past: 2 * s, used: 0},
		}},
		{"a_correction_forgets_the_oldest_first", []row{
			{at: 1 * s, do: "take", n: 4, used: 4},
			{at: 2 * s, do: "take", n: 6, used: 10},
			{at: 3 * s, do: "forget", n: 5, used: 5},
			{at: 3 * s, do: "refuse", n: 6, free: 62 * s, used: 5},
			{at: 3 * s, do: "forget", n: 99, used: 0},
		}},
		{"all_that_was_used_moves_on_a_rebase", []row{
			{at: 99999 * s, do: "take", n: 3, used: 3},
			{at: 100025 * s, do: "take", n: 4, used: 7},
			{at: 5 * s, do: "rebase", used: 7},
			{at: 64 * s, do: "refuse", n: 4, free: 65 * s, used: 7},
			{at: 65 * s, do: "take", n: 10, used: 10},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, NewLog(spec), c.rows) })
	}

	t.Run("an_instant_has_one_entry", func(t *testing.T) {
		l := NewLog(spec)
		for range 1000 {
			l.Take(in(s), 1, 1000)
		}
		if n := len(l.live()); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
	t.Run("what_has_left_is_dropped", func(t *testing.T) {
		l := NewLog(spec)
		for i := range 100_000 {
			l.Take(in(time.Duration(i)*s), 1, 1000)
		}
		if n := cap(l.entries); n > 256 {
			t.Errorf("room for %d entries is held, 60 are live", n)
		}
	})
}
