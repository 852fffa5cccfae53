package window

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBucket(t *testing.T) {
	const s = time.Second
	spec := normal(t, Spec{Per: 2 * s, Algorithm: Leaky, Rate: 2}) // one unit a second
	for _, c := range []struct {
		name string
		rows []row
	}{
		{"drains_all_the_time", []row{
			{at: 0, do: "take", n: 10, used: 10},
			{at: 0, do: "refuse", n: 1, used: 10, free: s},
			{at: s - 1000, do: "refuse", n: 1, used: 10, free: s},
			{at: s, do: "take", n: 1, used: 10},
			{at: 2500 * time.Millisecond, do: "refuse", n: 4, used: 9, free: 5 * s},
			{at: 11 * s, do: "look", used: 0},
			{at: 99 * s, do: "take", n: 10, used: 10}, // no more than the limit gathers
		}},
		{"a_heavy_call_waits_for_its_own_weight", []row{
			{at: 0, do: "take", n: 10, used: 10},
			{at: 0, do: "refuse", n: 7, used: 10, free: 7 * s},
			{at: 7 * s, do: "take", n: 7, used: 10},
		}},
		{"what_is_above_the_limit_drains_first", []row{
			{at: 0, do: "add", n: 25, past: 0, used: 25},
			{at: 5 * s, do: "refuse", n: 1, used: 20, free: 16 * s},
			{at: 16 * s, do: "take", n: 1, used: 10},
		}},
		{"a_clock_that_steps_back_drains_nothing", []row{
			{at: 5 * s, do: "take", n: 10, used: 10},
			{at: 0, do: "refuse", n: 1, used: 10, free: 6 * s},
			{at: 6 * s, do: "take", n: 1, used: 10},
		}},
		{"rebase_keeps_the_level", []row{
			{at: 90 * s, do: "take", n: 7, used: 7},
			{at: 0, do: "rebase", used: 7},
			{at: 3 * s, do: "look", used: 4},
		}},
		{"give_returns_all_at_once", []row{
			{at: 0, do: "take", n: 6, used: 6},
			{at: 0, do: "give", n: 4, past: 0, used: 2},
		}},
		{"give_keeps_what_may_have_drained", []row{
			{at: 0, do: "take", n: 1, used: 1},
			{at: 5 * s, do: "take", n: 10, used: 10},
			{at: 6 * s, do: "keep", n: 1, past: 0, used: 9},
			{at: 99 * s, do: "keep", n: 1, past: 98 * s, used: 0}, // it is empty
			{at: 99 * s, do: "keep", n: 1, past: 100 * s, used: 0},
		}},
		{"give_returns_all_if_the_bucket_was_never_near_empty", []row{
			{at: 0, do: "take", n: 10, used: 10},
			{at: 4 * s, do: "give", n: 3, past: 0, used: 3},
		}},
		{"give_returns_what_was_in_the_bucket_when_it_was_lowest", []row{
			{at: 0, do: "take", n: 4, used: 4},
			{at: 2 * s, do: "take", n: 1, used: 3}, // two were left
			{at: 9 * s, do: "keep", n: 1, past: 0, used: 0},
			{at: 20 * s, do: "take", n: 8, used: 8},
			{at: 22 * s, do: "take", n: 1, used: 7},
			{at: 25 * s, do: "give", n: 4, past: 20 * s, used: 0},
		}},
		{"forget_takes_any", []row{
			{at: 0, do: "take", n: 6, used: 6},
			{at: 1500 * time.Millisecond, do: "forget", n: 2, used: 3},
			{at: 2 * s, do: "forget", n: 99, used: 0},
		}},
		{"units_of_the_past_have_drained_since", []row{
			{at: 0, do: "take", n: 2, used: 2},
			{at: 10 * s, do: "add", n: 9, past: 5 * s, used: 4},
			{at: 10 * s, do: "add", n: 1, past: 5 * s, used: 5},
			{at: 10 * s, do: "add", n: 3, past: 2 * s, used: 8}, // the level at that time is unknown
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, NewBucket(spec), c.rows) })
	}
	t.Run("give_returns_what_cannot_have_drained", func(t *testing.T) {
		b := NewBucket(spec)
		b.Take(epoch, 6, 10)
		if given := b.Give(in(1500*time.Millisecond), epoch, 6); given != 4 || b.view(in(1500*time.Millisecond)) != 0 {
			t.Errorf("gave %d of 6 after 1.5s, and has %d parts; want 4 and none", given, b.view(in(1500*time.Millisecond)))
		}
	})
	t.Run("a_fraction_of_a_unit_counts_in_full", func(t *testing.T) {
		b := NewBucket(normal(t, Spec{Per: 7 * time.Second, Algorithm: Leaky, Rate: 3}))
		b.Take(epoch, 10, 10)
		if free := b.Free(epoch, 1, 10); free != epoch+2_333_334 {
			t.Errorf("a unit is free after %dµs, want 2333334", free-epoch)
		}
		if free := b.Free(epoch, 3, 10); free != epoch+7_000_000 {
			t.Errorf("three units are free after %dµs, want 7000000", free-epoch)
		}
	})
}

// Neither an upstream that knows from the start what a call costs, nor one that takes what
// is requested and gives the rest back when the call ends, ever has more in its bucket than
// we have, whenever calls are settled. So it refuses none.
func TestBucketIsNeverBelowTheUpstreams(t *testing.T) {
	type call struct {
		at      Instant
		less    int64 // it costs less than was reserved
		refunds bool  // the upstream has still to give that back
	}
	rapid.Check(t, func(t *rapid.T) {
		s, err := rapid.SampledFrom([]Spec{
			{Per: time.Second, Algorithm: Leaky, Rate: 3}, {Per: time.Minute, Algorithm: Leaky, Rate: 100}, {Per: 7 * time.Millisecond, Algorithm: Leaky, Rate: 1},
		}).Draw(t, "spec").Normal()
		if err != nil {
			t.Fatal(err)
		}
		const limit = 40
		ours, knows, refunds := NewBucket(s), NewBucket(s), NewBucket(s)
		unit := s.Per.Microseconds() / s.Rate
		heaviest := rapid.SampledFrom([]int64{4, 15, limit}).Draw(t, "heaviest")
		clock := epoch
		var open []call
		pick := func(name string) *call {
			if len(open) == 0 || !rapid.Bool().Draw(t, name) {
				return nil
			}
			return &open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
		}
		refund := func(c *call) {
			if c.refunds {
				refunds.Forget(clock, c.less)
			}
			c.refunds = false
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			clock += Instant(rapid.Int64Range(0, 4*unit).Draw(t, "forward"))
			if c := pick("end"); c != nil {
				refund(c)
			}
			if c := pick("settle"); c != nil {
				refund(c)
				ours.Give(clock, c.at, c.less)
				*c = open[0]
				open = open[1:]
			}
			estimate := rapid.Int64Range(1, heaviest).Draw(t, "estimate")
			actual := rapid.Int64Range(0, estimate).Draw(t, "actual")
			if ours.Take(clock, estimate, limit) {
				if !knows.Take(clock, actual, limit) || !refunds.Take(clock, estimate, limit) {
					t.Fatalf("the upstream refuses %d (%d) of %d with %d (%d) used; we had %d",
						actual, estimate, limit, knows.Used(clock), refunds.Used(clock), ours.Used(clock))
				}
				open = append(open, call{clock, estimate - actual, true})
			}
			if us := ours.view(clock); us < knows.view(clock) || us < refunds.view(clock) {
				t.Fatalf("the upstreams have %d and %d parts, we have %d", knows.view(clock), refunds.view(clock), us)
			}
		}
	})
}

// A ring and a log that are full have as many units as they can hold for as long as that
// many count, whatever else was added.
func TestFullWindowsStayFull(t *testing.T) {
	for _, s := range []Spec{{Per: time.Minute, Precision: 10 * time.Second, Wide: true}, {Per: time.Minute, Algorithm: Exact}} {
		s = normal(t, s)
		t.Run(s.Layout(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := New(s)
				n := modelSpecs[s.Algorithm].naive(s) // its sums stay far below 2^63
				clock := epoch
				for range rapid.IntRange(1, 40).Draw(t, "steps") {
					clock += Instant(rapid.Int64Range(0, 20e6).Draw(t, "forward"))
					at := clock - Instant(rapid.SampledFrom([]int64{0, 0, 1, 25e6}).Draw(t, "past"))
					units := rapid.SampledFrom([]int64{1, 1 << 31, 1 << 32, MaxUnits / 3, MaxUnits - 1, MaxUnits}).Draw(t, "units")
					w.Add(at, units)
					n.Add(at, units)
					for _, at := range []Instant{clock, clock + Instant(rapid.Int64Range(0, 70e6).Draw(t, "ahead"))} {
						if got, want := w.Used(at), min(n.Used(at), MaxUnits); got != want {
							t.Fatalf("used %d after %dµs, want %d", got, at-clock, want)
						}
					}
					if room := MaxUnits - w.Used(clock); fits(w.Used(clock), room+1, MaxUnits) || !fits(w.Used(clock), room, MaxUnits) {
						t.Fatalf("%d fit beside %d", room+1, w.Used(clock))
					}
				}
			})
		})
	}
}
