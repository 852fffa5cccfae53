package window

import (
	"testing"
	"time"
)

func TestRing(t *testing.T) {
	const s = time.Second
	spec := normal(t, Spec{Per: 60 * s, Precision: 10 * s})
	for _, c := range []struct {
		name string
		rows []row
	}{
		{"capacity_returns_one_precision_late_at_most", []row{
			{at: 0, do: "take", n: 10, used: 10}, // the worst place: where a bucket begins
			{at: 60 * s, do: "refuse", n: 1, free: 70 * s, used: 10},
			{at: 70*s - time.Microsecond, do: "refuse", n: 1, free: 70 * s, used: 10},
			{at: 70 * s, do: "take", n: 10, used: 10},
			{at: 79*s + 999*time.Millisecond, do: "look", used: 10},
			{at: 140*s - time.Microsecond, do: "refuse", n: 1, free: 140 * s, used: 10},
			{at: 140 * s, do: "take", n: 1, used: 1},
		}},
		{"capacity_never_returns_early", []row{
			{at: 10*s - time.Microsecond, do: "take", n: 10, used: 10}, // the best place: where a bucket ends
			{at: 70*s - 2*time.Microsecond, do: "refuse", n: 1, free: 70 * s, used: 10},
			{at: 70 * s, do: "take", n: 1, used: 1},
		}},
		{"a_heavy_call_waits_for_its_own_weight", []row{
			{at: 1 * s, do: "take", n: 2, used: 2},
			{at: 11 * s, do: "take", n: 3, used: 5},
			{at: 31 * s, do: "take", n: 5, used: 10},
			{at: 40 * s, do: "refuse", n: 1, free: 70 * s, used: 10},
			{at: 40 * s, do: "refuse", n: 2, free: 70 * s, used: 10},
			{at: 40 * s, do: "refuse", n: 3, free: 80 * s, used: 10},
			{at: 40 * s, do: "refuse", n: 5, free: 80 * s, used: 10},
			{at: 40 * s, do: "refuse", n: 6, free: 100 * s, used: 10},
			{at: 40 * s, do: "refuse", n: 10, free: 100 * s, used: 10},
			{at: 75 * s, do: "refuse", n: 3, free: 80 * s, used: 8}, // asked anew in a later bucket
			{at: 100 * s, do: "take", n: 10, used: 10},
		}},
		{"a_clock_that_steps_back_counts_in_the_newest_bucket", []row{
			{at: 61 * s, do: "take", n: 4, used: 4},
			{at: 5 * s, do: "take", n: 6, used: 10},
			{at: 6 * s, do: "refuse", n: 1, free: 130 * s, used: 10},
			{at: 129 * s, do: "refuse", n: 1, free: 130 * s, used: 10},
			{at: 130 * s, do: "take", n: 10, used: 10},
		}},
		{"charges_of_the_past_count_at_their_own_instant", []row{
			{at: 61 * s, do: "take", n: 4, used: 4},
			{at: 61 * s, do: "add", n: 9, past: 1 * s, used: 13}, // past the limit
			{at: 61 * s, do: "refuse", n: 1, free: 70 * s, used: 13},
			{at: 70 * s, do: "take", n: 1, used: 5},
			{at: 71 * s, do: "ignore", n: 9, past: 9 * s, used: 5}, // the window has left it
			{at: 71 * s, do: "add", n: 1, past: 10 * s, used: 6},
		}},
		{"units_go_back_to_the_bucket_they_came_from", []row{
			{at: 1 * s, do: "take", n: 4, used: 4},
			{at: 11 * s, do: "take", n: 6, used: 10},
			{at: 62 * s, do: "give", n: 3, past: 1 * s, used: 7},
			{at: 62 * s, do: "give", n: 1, past: 1 * s, used: 6},
			{at: 62 * s, do: "keep", n: 1, past: 1 * s, used: 6}, // no more than there was
			{at: 62 * s, do: "keep", n: 1, past: 70 * s, used: 6},
			{at: 80 * s, do: "keep", n: 6, past: 11 * s, used: 0}, // already out of the window
		}},
		{"a_correction_forgets_the_oldest_first", []row{
			{at: 1 * s, do: "take", n: 4, used: 4},
			{at: 11 * s, do: "take", n: 6, used: 10},
			{at: 12 * s, do: "forget", n: 5, used: 5},
			{at: 12 * s, do: "refuse", n: 6, free: 80 * s, used: 5},
			{at: 12 * s, do: "forget", n: 99, used: 0},
		}},
		{"a_pause_of_any_length_empties_it", []row{
			{at: 1 * s, do: "take", n: 10, used: 10},
			{at: 3600 * s, do: "look", used: 0},
			{at: 3600 * s, do: "take", n: 10, used: 10},
			{at: 90 * 24 * time.Hour, do: "take", n: 10, used: 10},
		}},
		{"all_that_was_used_moves_on_a_rebase", []row{
			{at: 99999 * s, do: "take", n: 3, used: 3},
			{at: 100025 * s, do: "take", n: 4, used: 7},
			{at: 5 * s, do: "rebase", used: 7},
			{at: 69 * s, do: "refuse", n: 4, free: 70 * s, used: 7},
			{at: 70 * s, do: "take", n: 10, used: 10},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, NewRing(spec), c.rows) })
	}

	t.Run("a_ring_of_one_bucket", func(t *testing.T) {
		play(t, NewRing(normal(t, Spec{Per: 60 * s, Precision: 60 * s})), []row{
			{at: 59 * s, do: "take", n: 10, used: 10},
			{at: 61 * s, do: "refuse", n: 1, free: 120 * s, used: 10},
			{at: 120 * s, do: "take", n: 10, used: 10},
		})
	})
	t.Run("what_comes_back_next", func(t *testing.T) {
		r := NewRing(spec)
		r.Take(in(1*s), 2, limit)
		r.Take(in(31*s), 5, limit)
		for _, c := range []struct {
			at   time.Duration
			n    int64
			next time.Duration
		}{{31 * s, 2, 70 * s}, {69 * s, 2, 70 * s}, {70 * s, 5, 100 * s}} {
			if n, at := Next(r, in(c.at)); n != c.n || at != in(c.next) {
				t.Errorf("at %s: %d at %s, want %d at %s", c.at, n, at.Sub(epoch), c.n, c.next)
			}
			if at := r.Reset(in(c.at)); at != in(100*s) {
				t.Errorf("at %s: resets at %s, want 100s", c.at, at.Sub(epoch))
			}
		}
	})
}
