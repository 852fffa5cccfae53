package window

import (
	"testing"
	"time"
)

var takeSpecs = []Spec{
	{Per: 24 * time.Hour},
	{Per: 24 * time.Hour, Algorithm: Exact},
	{Per: 24 * time.Hour, Algorithm: Estimate},
	{Period: Day, Zone: mustZone("America/Los_Angeles")},
	{Per: time.Hour, Algorithm: Leaky, Rate: 10},
}

// BenchmarkTake grants one unit after another, a second apart: a ring enters a
// new bucket at every 60th, the log drops as many entries as it gains.
func BenchmarkTake(b *testing.B) {
	for _, s := range takeSpecs {
		s = normal(b, s)
		b.Run(string(s.Algorithm), func(b *testing.B) {
			w := New(s)
			at := epoch
			b.ReportAllocs()
			for b.Loop() {
				at += 1e6
				if !w.Take(at, 1, s.MaxLimit()) {
					b.Fatal("refused")
				}
			}
		})
	}
}

// BenchmarkTakeAtOnce is the bare cost: time stands still.
func BenchmarkTakeAtOnce(b *testing.B) {
	for _, s := range takeSpecs {
		s = normal(b, s)
		b.Run(string(s.Algorithm), func(b *testing.B) {
			w := New(s)
			b.ReportAllocs()
			for b.Loop() {
				if !w.Take(epoch, 0, MaxUnits) {
					b.Fatal("refused")
				}
			}
		})
	}
}

// BenchmarkRefuse takes from a full window and asks when to come again.
func BenchmarkRefuse(b *testing.B) {
	for _, s := range takeSpecs {
		s = normal(b, s)
		b.Run(string(s.Algorithm), func(b *testing.B) {
			w := New(s)
			at := epoch
			for range 1440 {
				at += 60e6
				w.Add(at, 1)
			}
			limit := w.Used(at)
			b.ReportAllocs()
			for b.Loop() {
				if w.Take(at, limit, limit) || w.Free(at, limit, limit) <= at {
					b.Fatal("granted")
				}
			}
		})
	}
}

func BenchmarkBounds(b *testing.B) {
	for _, p := range []Period{Minute, Hour, Day, Week, Month} {
		s := normal(b, Spec{Period: p, Zone: mustZone("America/Los_Angeles")})
		b.Run(string(p), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Bounds(epoch)
			}
		})
	}
}

func BenchmarkPageState(b *testing.B) {
	p := busyPage(b)
	b.Run("append", func(b *testing.B) {
		buf := encode(b, p)
		b.ReportAllocs()
		for b.Loop() {
			buf, _ = p.AppendBinary(buf[:0])
		}
	})
	b.Run("read", func(b *testing.B) {
		bytes := encode(b, p)
		b.ReportAllocs()
		for b.Loop() {
			if err := new(Page).UnmarshalBinary(bytes); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestTakeAllocatesNothing(t *testing.T) {
	for _, s := range takeSpecs {
		s = normal(t, s)
		t.Run(string(s.Algorithm), func(t *testing.T) {
			w := New(s)
			at := epoch
			second := func() {
				at += 1e6
				w.Take(at, 1, s.MaxLimit())
			}
			for range 3 * 86_400 { // the log has all the room it needs
				second()
			}
			if n := testing.AllocsPerRun(2*86_400, second); n != 0 {
				t.Errorf("%v allocations per Take", n)
			}
			refuse := func() {
				if most := s.MaxLimit(); w.Take(at, most, most) || fits(w.Used(at), most, most) || w.Free(at, most, most) <= at {
					t.Error("granted")
				}
			}
			if n := testing.AllocsPerRun(10, refuse); n != 0 {
				t.Errorf("%v allocations per refusal", n)
			}
		})
	}
}
