package window

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func encode(t testing.TB, p *Page) []byte {
	t.Helper()
	b, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// busyPage has one window of each kind, with something in it.
func busyPage(t testing.TB) *Page {
	t.Helper()
	p := NewPage(in(0), 7, limits(t,
		Spec{Per: time.Hour, Precision: 10 * time.Minute},
		Spec{Per: time.Hour, Algorithm: Exact},
		Spec{Per: time.Hour, Algorithm: Estimate},
		Spec{Per: time.Hour, Algorithm: Leaky, Rate: 7},
		Spec{Per: time.Hour, Precision: time.Minute, Late: 3 * time.Minute, Wide: true},
		Spec{Period: Day, Zone: zone(t, "America/Los_Angeles")},
	))
	p.Add(in(time.Hour), 3)
	p.Add(in(90*time.Minute), 1)
	p.Add(in(80*time.Minute), 2)
	p.Block(in(90*time.Minute), in(2*time.Hour))
	return p
}

func TestState(t *testing.T) {
	t.Run("a_page_reads_back_as_it_was", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			specs := rapid.SliceOfN(rapid.SampledFrom([]Spec{
				{Per: time.Hour, Precision: 10 * time.Minute},
				{Per: time.Minute, Precision: time.Minute},
				{Per: time.Hour, Algorithm: Exact},
				{Per: time.Hour, Algorithm: Estimate},
				{Per: time.Hour, Algorithm: Leaky, Rate: 7},
				{Period: Day, Zone: zone(t, "America/Los_Angeles")},
				{Period: Hour},
			}), 0, 5).Draw(rt, "windows")
			start := At(time.Date(rapid.SampledFrom([]int{1, 1969, 2026, 2150}).Draw(rt, "year"), 3, 8, 0, 0, 0, 0, time.UTC))
			p := NewPage(start, rapid.Int64().Draw(rt, "revision"), limits(t, specs...))
			for range rapid.IntRange(0, 20).Draw(rt, "charges") {
				p.Add(start+Instant(rapid.Int64Range(0, 8e9).Draw(rt, "at")), rapid.Int64Range(0, MaxUnits).Draw(rt, "units"))
			}
			if rapid.Bool().Draw(rt, "give") {
				p.Give(p.Latest, start+Instant(rapid.Int64Range(0, 8e9).Draw(rt, "taken")), rapid.Int64Range(0, 9).Draw(rt, "back"))
			}
			if rapid.Bool().Draw(rt, "block") { // which moves the page's time, and that of no window
				at := p.Latest + Instant(rapid.Int64Range(0, 2e11).Draw(rt, "blocked at"))
				p.Block(at, at+1)
			}
			b := encode(t, p)
			q := new(Page)
			if err := q.UnmarshalBinary(b); err != nil {
				rt.Fatal(err)
			}
			if again := encode(t, q); !bytes.Equal(b, again) {
				rt.Fatalf("other bytes when written again:\n%x\n%x", b, again)
			}
			for range 10 {
				at := p.Latest + Instant(rapid.Int64Range(0, 2e11).Draw(rt, "later"))
				if d := cmp.Diff(usedIn(p, at), usedIn(q, at)); d != "" {
					rt.Fatalf("at %s: %s", at.Time(), d)
				}
			}
			if d := cmp.Diff([]int64{int64(p.Born), p.Generation, p.Revision, int64(p.Latest), int64(p.Blocked), int64(p.shape.span)},
				[]int64{int64(q.Born), q.Generation, q.Revision, int64(q.Latest), int64(q.Blocked), int64(q.shape.span)}); d != "" {
				rt.Fatal(d)
			}
			late, units := p.Latest-Instant(rapid.Int64Range(0, 2e11).Draw(rt, "late")), rapid.Int64Range(0, MaxUnits).Draw(rt, "late units")
			back := p.Latest.Add(-p.shape.span) - 1
			for _, page := range []*Page{p, q} {
				page.Add(late, units)
				page.Now(back)
			}
			if d := cmp.Diff(usedIn(p, back), usedIn(q, back)); d != "" {
				rt.Fatalf("%d more at %s, and the clock set back: %s", units, late.Time(), d)
			}
		})
	})
	t.Run("a_clone_is_a_page_of_its_own", func(t *testing.T) {
		for _, at := range []Instant{-far, -1, 0, in(0), far} {
			var l []Limit
			for _, w := range takeSpecs {
				l = append(l, NewLimit(normal(t, w), limit))
			}
			p := NewPage(at, 1, l)
			p.Add(at, 3)
			q := p.Clone()
			wantUsed(t, q, at, 3, 3, 3, 3, 3)
			q.Add(at, 2)
			wantUsed(t, q, at, 5, 5, 5, 5, 5)
			wantUsed(t, p, at, 3, 3, 3, 3, 3)
		}
	})
	t.Run("what_was_used_far_ahead_moves_after_reading_back", func(t *testing.T) {
		p := busyPage(t)
		q := new(Page)
		if err := q.UnmarshalBinary(encode(t, p)); err != nil {
			t.Fatal(err)
		}
		p.Now(in(-9000 * time.Hour))
		q.Now(in(-9000 * time.Hour))
		if d := cmp.Diff(usedIn(p, p.Latest), usedIn(q, q.Latest)); d != "" {
			t.Error(d)
		}
	})
	t.Run("what_was_used_before_a_block_far_ahead_moves_after_reading_back", func(t *testing.T) {
		p := busyPage(t)
		p.Block(in(9000*time.Hour), in(9001*time.Hour))
		q := new(Page)
		if err := q.UnmarshalBinary(encode(t, p)); err != nil {
			t.Fatal(err)
		}
		if b := encode(t, q); !bytes.Equal(b, encode(t, p)) {
			t.Errorf("other bytes when written again: %x", b)
		}
		p.Now(in(2 * time.Hour))
		q.Now(in(2 * time.Hour))
		wantUsed(t, p, p.Latest, 6, 6, 6, 3, 6, 6)
		wantUsed(t, q, q.Latest, 6, 6, 6, 3, 6, 6)
	})
	t.Run("cut_anywhere_it_is_refused", func(t *testing.T) {
		b := encode(t, busyPage(t))
		for n := range b {
			refused(t, b[:n])
		}
		refused(t, append(b[:len(b):len(b)], 0))
	})

	state := func(layout string, counters ...int64) []byte {
		b := []byte{stateVersion}
		for _, n := range []int64{0, 0, 0, int64(epoch), 0, 1, int64(len(layout))} {
			b = binary.AppendVarint(b, n)
		}
		b = append(b, layout...)
		for _, n := range counters {
			b = binary.AppendVarint(b, n)
		}
		return b
	}
	const (
		ring     = "ring 1m0s 1m0s"
		log      = "log 1m0s 0s"
		counter  = "counter 1m0s 0s"
		bucket   = "bucket 1m0s 10"
		calendar = "calendar day UTC 1m0s"
		day      = int64(24 * time.Hour / time.Microsecond)
		minute   = int64(time.Minute / time.Microsecond)
	)
	now := int64(epoch)
	t.Run("good", func(t *testing.T) {
		for name, b := range map[string][]byte{
			"ring":     state(ring, 1, now/minute, 5, maxNarrow),
			"wide":     state(ring+" wide", 1, now/minute, 5, MaxUnits-5),
			"late":     state(ring+" late 1m0s", 1, now/minute, 5, 0, 1),
			"log":      state(log, 2, now-1, 5, 1, MaxUnits-5),
			"counter":  state(counter, 1, now/minute, maxCounter, 0),
			"calendar": state(calendar, 1, now, now+day, MaxUnits, 5, MaxUnits),
			"bucket":   state(bucket, 1, now, maxLevel),
			"lows":     state(bucket, 1, now, -6, now-5, 5, now-9, maxLevel),
			"behind":   state(bucket, 2, now-1, now-1, 5),
		} {
			if err := new(Page).UnmarshalBinary(b); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	for name, b := range map[string][]byte{
		"empty":                          {},
		"another_version":                {stateVersion + 1, 0, 0, 0, 0, 0, 0},
		"too_many_windows":               binary.AppendVarint([]byte{stateVersion, 0, 0, 0, 0, 0}, maxWindows+1),
		"negative_windows":               binary.AppendVarint([]byte{stateVersion, 0, 0, 0, 0, 0}, -1),
		"an_instant_out_of_reach":        binary.AppendVarint([]byte{stateVersion}, int64(2*far)+1),
		"a_layout_that_is_none":          state("gcra 1m0s"),
		"a_layout_written_otherwise":     state("ring 60s 1m", 0),
		"a_flag_that_is_neither":         state(ring, 2),
		"a_ring_with_too_much":           state(ring, 1, now/minute, 5, maxNarrow+1),
		"a_ring_with_less_than_nothing":  state(ring, 1, now/minute, 5, -1),
		"a_ring_ahead_of_its_page":       state(ring, 1, now/minute+1, 5, 5),
		"a_ring_out_of_reach":            state(ring, 1, -1<<62, 5, 5),
		"a_wide_ring_with_too_much":      state(ring+" wide", 1, now/minute, 5, MaxUnits+1),
		"a_bucket_with_too_much":         state(bucket, 1, now, maxLevel+1),
		"a_bucket_with_less_than_none":   state(bucket, 1, now, -1),
		"a_bucket_below_its_lowest":      state(bucket, 1, now, -6, now-5, 6, now-9, 3),
		"a_bucket_with_half_its_lows":    state(bucket, 1, now, -6, now-5, 5),
		"a_bucket_ahead_of_its_page":     state(bucket, 1, now+1, 1),
		"a_log_that_goes_back":           state(log, 2, now, 5, -1, 5),
		"a_log_with_an_instant_twice":    state(log, 2, now, 5, 0, 5),
		"a_log_with_nothing":             state(log, 1, now, 0),
		"a_log_with_too_much":            state(log, 2, now-1, 5, 1, MaxUnits-4),
		"a_log_ahead_of_its_page":        state(log, 1, now+1, 1),
		"a_log_longer_than_its_bytes":    state(log, 1<<40, now, 1),
		"a_counter_with_too_much":        state(counter, 1, now/minute, maxCounter+1, 0),
		"a_counter_ahead_of_its_page":    state(counter, 1, now/minute+1, 0, 0),
		"a_counter_out_of_reach":         state(counter, 1, 1<<62, 0, 0),
		"a_calendar_that_ends_first":     state(calendar, 1, now, now, 0, 0, 0),
		"a_calendar_that_never_ends":     state(calendar, 1, now, int64(far), 0, 0, 0),
		"a_calendar_ahead_of_its_page":   state(calendar, 1, now+1, now+day, 0, 0, 0),
		"a_calendar_with_more_to_come":   state(calendar, 1, now, now+day, 5, 0, 6),
		"a_calendar_with_too_much":       state(calendar, 1, now, now+day, MaxUnits+1, 0, 0),
		"a_calendar_of_the_machine's":    state("calendar day Local 1m0s", 0),
		"a_layout_longer_than_its_bytes": state(strings.Repeat("x", 100))[:40],
	} {
		t.Run("bad/"+name, func(t *testing.T) { refused(t, b) })
	}
}

// refused says that bytes are no page, and that they leave one as it was.
func refused(t *testing.T, b []byte) {
	t.Helper()
	p := busyPage(t)
	before := encode(t, p)
	if err := p.UnmarshalBinary(b); !errors.Is(err, errState) {
		t.Errorf("%x: error is %v, want %v", b, err, errState)
	}
	if !bytes.Equal(encode(t, p), before) {
		t.Errorf("%x: refused, but the page is another now", b)
	}
}

// FuzzPageState reads hostile bytes: they are refused, or they make a page that
// keeps its promises.
func FuzzPageState(f *testing.F) {
	f.Add(encode(f, NewPage(in(0), 1, nil)))
	f.Add(encode(f, NewPage(in(0), 1, limits(f, Spec{Per: time.Minute, Precision: time.Minute}))))
	f.Add(encode(f, busyPage(f)))
	full := busyPage(f)
	for range 3 {
		full.Add(in(2*time.Hour), MaxUnits)
	}
	f.Add(encode(f, full))
	f.Add([]byte{})
	f.Add([]byte{stateVersion, 0, 0, 0, 0, 0, 2, 2, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := new(Page)
		if p.UnmarshalBinary(b) != nil {
			return
		}
		first := encode(t, p)
		q := new(Page)
		if err := q.UnmarshalBinary(first); err != nil {
			t.Fatalf("cannot read what it wrote: %v", err)
		}
		if second := encode(t, q); !bytes.Equal(first, second) {
			t.Fatalf("written twice:\n%x\n%x", first, second)
		}
		var l []Limit
		for _, layout := range p.shape.layouts {
			s, err := ParseLayout(layout)
			if err != nil {
				t.Fatal(err)
			}
			l = append(l, NewLimit(s, MaxUnits))
		}
		for _, w := range p.windows {
			// Of other rules for its zone, a calendar's guess at what comes
			// next is as good as they were.
			if c, ok := w.(*Calendar); ok && c.end != longAgo {
				if start, end := c.spec.Bounds(c.start); start != c.start || end != c.end {
					return
				}
			}
		}
		now := p.Latest
		for i, used := range usedIn(p, now) {
			if used < 0 {
				t.Fatalf("window %d has used %d", i, used)
			}
		}
		free, w := p.Free(now, 1, l)
		if free < now || free == Never {
			t.Fatalf("free at %d, now is %d", free, now)
		}
		if !p.Fits(free, 1, l) {
			t.Fatalf("free at %d by window %d, but it does not fit", free, w)
		}
		if w >= 0 && p.Fits(free.Add(-l[w].Spec.Resolution()), 1, l) {
			t.Fatalf("free at %d by window %d, but it fits before", free, w)
		}
		p.Add(free, 1)
		p.Give(free, free, 1)
		p.Forget(free, MaxUnits)
		p.Now(free.Add(-100 * 366 * 24 * time.Hour))
		if err := q.UnmarshalBinary(encode(t, p)); err != nil {
			t.Fatalf("cannot read what it wrote later: %v", err)
		}
	})
}

// A page whose clock was set back keeps by how much. Any other page is stored as by earlier
// versions.
func TestStateOfAPageThatWasSetBack(t *testing.T) {
	spec, err := Spec{Per: time.Minute, Algorithm: Exact}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	limits := []Limit{NewLimit(spec, 5)}
	read := func(p *Page) *Page {
		t.Helper()
		b, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		q := &Page{}
		if err := q.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]byte{true: setBackVersion, false: stateVersion}[p.setBack > 0]; b[0] != want {
			t.Errorf("version %d, want %d", b[0], want)
		}
		return q
	}
	const second = Instant(1_000_000)
	p := NewPage(0, 1, limits)
	p.Add(0, 5)
	p = read(p)
	if _, moved := p.Now(-100 * second); !moved {
		t.Error("it was not re-based")
	}
	p = read(p)
	if now, moved := p.Now(second); !moved || p.Fits(now, 1, limits) {
		t.Error("units are free after the return of the clock")
	}
	p = read(p)
	if now, moved := p.Now(61 * second); moved || !p.Fits(now, 5, limits) {
		t.Error("units do not come back a window after the return")
	}
}
