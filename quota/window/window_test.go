package window

import (
	"fmt"
	"testing"
	"time"
)

// epoch is where the tests' timelines begin: a Sunday midnight in UTC, on which
// every bucket and every fixed window of theirs begins too.
var epoch = At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))

// in returns the instant d after the epoch.
func in(d time.Duration) Instant { return epoch.Add(d) }

// on returns the instant of an RFC 3339 time.
func on(t testing.TB, text string) Instant {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return At(at)
}

func normal(t testing.TB, s Spec) Spec {
	t.Helper()
	s, err := s.Normal()
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return s
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := loadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// row is one instant of a timeline: something is done, and then the window has
// used so much.
type row struct {
	at   time.Duration // after the epoch
	do   string        // take, refuse, add, ignore, give, forget, rebase, look
	n    int64
	past time.Duration // add, ignore, give: when it happened
	used int64
	free time.Duration // refuse: when it would fit
}

const limit = 10

// play runs a timeline against a limit of 10.
func play(t *testing.T, w Window, rows []row) {
	t.Helper()
	for i, r := range rows {
		at, past := in(r.at), in(r.past)
		name := fmt.Sprintf("row %d, at %s: %s %d", i, r.at, r.do, r.n)
		switch r.do {
		case "take":
			if free := w.Free(at, r.n, limit); free != at {
				t.Errorf("%s: free at %s, want now", name, free.Sub(epoch))
			}
			if !w.Take(at, r.n, limit) {
				t.Errorf("%s: refused", name)
			}
		case "refuse":
			if w.Take(at, r.n, limit) {
				t.Errorf("%s: granted", name)
			}
			if free := w.Free(at, r.n, limit); free != in(r.free) {
				t.Errorf("%s: free at %s, want %s", name, free.Sub(epoch), r.free)
			}
		case "add", "ignore":
			if counted := w.Add(past, r.n); counted != (r.do == "add") {
				t.Errorf("%s: counted is %t", name, counted)
			}
		case "give":
			if given := w.Give(at, past, r.n); given != r.n {
				t.Errorf("%s: given back %d", name, given)
			}
		case "keep":
			if given := w.Give(at, past, r.n); given != 0 {
				t.Errorf("%s: given back %d, want 0", name, given)
			}
		case "forget":
			w.Forget(at, r.n)
		case "rebase":
			rebase(w, at)
		case "look":
		default:
			t.Fatalf("%s: no such thing to do", name)
		}
		if used := w.Used(at); used != r.used {
			t.Errorf("%s: used %d, want %d", name, used, r.used)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Run("new_makes_what_the_spec_names", func(t *testing.T) {
		for want, s := range map[string]Spec{
			"*window.Ring":     {Per: time.Hour},
			"*window.Log":      {Per: time.Hour, Algorithm: Exact},
			"*window.Counter":  {Per: time.Hour, Algorithm: Estimate},
			"*window.Calendar": {Period: Hour},
			"*window.Bucket":   {Per: time.Hour, Algorithm: Leaky, Rate: 10},
		} {
			if got := fmt.Sprintf("%T", New(normal(t, s))); got != want {
				t.Errorf("%+v makes a %s, want a %s", s, got, want)
			}
		}
	})
	for _, s := range []Spec{
		{Per: time.Hour},
		{Per: time.Hour, Wide: true, Late: time.Minute},
		{Per: time.Hour, Algorithm: Exact},
		{Per: time.Hour, Algorithm: Estimate},
		{Period: Hour},
		{Per: time.Hour, Algorithm: Leaky, Rate: 10},
		{Per: time.Millisecond, Algorithm: Leaky, Rate: 1},
	} {
		s = normal(t, s)
		t.Run(s.Layout(), func(t *testing.T) {
			testAnyWindow(t, s)
		})
	}
}

// testAnyWindow has the facts that hold for all four.
func testAnyWindow(t *testing.T, s Spec) {
	mid := in(30 * time.Minute)
	t.Run("is_empty_when_new", func(t *testing.T) {
		w := New(s)
		if used := w.Used(mid); used != 0 {
			t.Errorf("used %d", used)
		}
		if n, at := Next(w, mid); n != 0 || at != Never {
			t.Errorf("next %d at %d, want nothing, never", n, at)
		}
		if at := w.Reset(mid); s.Algorithm != ByCalendar && at != mid {
			t.Errorf("resets at %d, want now", at)
		}
		if given := w.Give(mid, mid, 1); given != 0 {
			t.Errorf("gave %d", given)
		}
		w.Forget(mid, 1)
		rebase(w, mid)
		if used := w.Used(mid); used != 0 {
			t.Errorf("used %d after forgetting and rebasing nothing", used)
		}
	})
	t.Run("admits_the_limit_and_no_more", func(t *testing.T) {
		w := New(s)
		for i := range limit {
			if !w.Take(mid, 1, limit) {
				t.Fatalf("unit %d was refused", i)
			}
		}
		if w.Take(mid, 1, limit) {
			t.Error("one too many was granted")
		}
		if !fits(w.Used(mid), 1, limit+1) {
			t.Error("a raised limit does not apply at once")
		}
	})
	t.Run("more_than_the_limit_is_never_free", func(t *testing.T) {
		if free := New(s).Free(mid, limit+1, limit); free != Never {
			t.Errorf("free at %d", free)
		}
	})
	t.Run("nothing_always_fits", func(t *testing.T) {
		w := New(s)
		w.Add(mid, 2*limit)
		if !w.Take(mid, 0, limit) {
			t.Error("0 units were refused")
		}
		if free := w.Free(mid, 0, limit); free != mid {
			t.Errorf("0 units are free at %d, want now", free)
		}
	})
	t.Run("to_ask_changes_nothing", func(t *testing.T) {
		w := New(s)
		w.Take(mid, limit, limit)
		later := in(90*24*time.Hour + time.Millisecond)
		w.Used(later)
		w.Free(later, 1, limit)
		Next(w, later)
		w.Reset(later)
		if w.Take(later, limit+1, limit) {
			t.Error("more than the limit was granted")
		}
		if used := w.Used(mid); used != limit {
			t.Errorf("used %d after questions from far ahead, want %d", used, limit)
		}
	})
	t.Run("a_full_counter_sticks", func(t *testing.T) {
		w, most, full := New(s), s.MaxLimit(), fullOf(s)
		for range 5 {
			w.Add(mid, MaxUnits)
		}
		if used := w.Used(mid); used != full || used < most {
			t.Errorf("used %d, want %d, which is not below %d", used, full, most)
		}
		if given := w.Give(mid, mid, MaxUnits); given != 0 {
			t.Errorf("gave %d back though it has lost count", given)
		}
		w.Forget(mid, MaxUnits)
		if w.Take(mid, 1, most) {
			t.Error("a full window granted a unit")
		}
		rebase(w, in(0))
		if used := w.Used(in(0)); used != full {
			t.Errorf("used %d after a rebase, want %d", used, full)
		}
		if free := w.Free(in(0), most, most); free == Never || !s.Drains() && free.Sub(in(0)) > s.Span() {
			t.Errorf("free %s later, want within %s", free.Sub(in(0)), s.Span())
		}
	})
	t.Run("works_at_any_time", func(t *testing.T) {
		for _, year := range []int{-70_000, 1, 1900, 1969, 1970, 2100, 9999, 250_000} {
			at := At(time.Date(year, 7, 1, 12, 30, 0, 0, time.UTC))
			w := New(s)
			if !w.Take(at, limit, limit) {
				t.Errorf("%d: the limit was refused", year)
			}
			free := w.Free(at, 1, limit)
			if free <= at || !s.Drains() && free.Sub(at) > s.Span() || fits(w.Used(free.Add(-s.Resolution())), 1, limit) || !w.Take(free, 1, limit) {
				t.Errorf("%d: free %s later, and not honest", year, free.Sub(at))
			}
		}
	})
}

// fullOf returns the most units that a window counts.
func fullOf(s Spec) int64 {
	switch {
	case s.Algorithm == Estimate:
		return maxCounter
	case s.Algorithm == Leaky:
		_, unit := s.Drain()
		return ceilDiv(maxLevel, unit)
	case s.Algorithm == Sliding && !s.Wide:
		return maxNarrow
	}
	return MaxUnits
}

func TestInstant(t *testing.T) {
	t.Run("cuts_to_the_microsecond_downwards", func(t *testing.T) {
		for ns, want := range map[int64]Instant{1999: 1, 1000: 1, 999: 0, 0: 0, -1: -1, -1000: -1, -1001: -2} {
			if got := At(time.Unix(0, ns)); got != want {
				t.Errorf("%d ns is instant %d, want %d", ns, got, want)
			}
		}
	})
	t.Run("times_out_of_reach_are_clamped", func(t *testing.T) {
		if got := At(time.Unix(1<<62, 0)); got != far {
			t.Errorf("%d, want %d", got, far)
		}
		if got := At(time.Unix(-1<<62, 0)); got != -far {
			t.Errorf("%d, want %d", got, -far)
		}
		if got := At(time.Time{}).Time(); !got.Equal(time.Time{}) {
			t.Errorf("the zero time comes back as %s", got)
		}
	})
	t.Run("differences_are_clamped", func(t *testing.T) {
		for _, c := range []struct {
			i, j Instant
			want time.Duration
		}{
			{epoch, epoch.Add(-time.Hour), time.Hour},
			{epoch.Add(-time.Hour), epoch, -time.Hour},
			{Never, epoch, 1<<63 - 1},
			{far, -far, 1<<63 - 1},
			{-far, far, -1 << 63},
		} {
			if got := c.i.Sub(c.j); got != c.want {
				t.Errorf("from %d to %d it is %s, want %s", c.j, c.i, got, c.want)
			}
		}
	})
	t.Run("division_rounds_to_the_named_side", func(t *testing.T) {
		for _, c := range []struct{ a, b, want int64 }{{7, 3, 2}, {6, 3, 2}, {0, 3, 0}, {-1, 3, -1}, {-3, 3, -1}, {-4, 3, -2}} {
			if got := floorDiv(c.a, c.b); got != c.want {
				t.Errorf("floor of %d/%d is %d, want %d", c.a, c.b, got, c.want)
			}
		}
		for _, c := range []struct{ a, b, want int64 }{{7, 3, 3}, {6, 3, 2}, {1, 3, 1}, {0, 3, 0}} {
			if got := ceilDiv(c.a, c.b); got != c.want {
				t.Errorf("ceiling of %d/%d is %d, want %d", c.a, c.b, got, c.want)
			}
		}
	})
}
