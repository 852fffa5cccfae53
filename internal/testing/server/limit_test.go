package server

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Each kind is driven against its limit at random times, and never lets more through
// than it says. The check is a list of all units.
func TestLimit(t *testing.T) {
	for _, l := range []Limit{
		{Kind: Fixed, Quota: 100, Per: time.Minute, Phase: 17 * time.Second},
		{Kind: Fixed, Quota: 100, Per: time.Minute, Lazy: true},
		{Kind: Sliding, Quota: 100, Per: time.Minute},
		{Kind: Bucket, Quota: 100, Per: time.Minute},
		{Kind: Bucket, Quota: 50, Per: time.Second, Burst: 1000},
	} {
		t.Run(l.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
			now, c := start, newCounter(l, start)
			var all []spent
			var total int64
			for range 5000 {
				now = now.Add(time.Duration(r.Int64N(int64(l.Per / 20))))
				units := 1 + r.Int64N(l.most()/5)
				if d := c.wait(now, units); d > 0 {
					if c.left(now) >= units {
						t.Fatalf("waits %s although %d of %d are left", d, c.left(now), units)
					}
					if r.IntN(4) == 0 { // what it names is the earliest instant
						if early := *c; early.left(now.Add(d-time.Microsecond)) >= units {
							t.Fatalf("%d units fit before the wait of %s is over", units, d)
						}
						if now = now.Add(d); c.left(now) < units {
							t.Fatalf("%d of %d are left after the wait of %s", c.left(now), units, d)
						}
					} else {
						continue
					}
				}
				c.add(now, units)
				total += units
				all = append(all, spent{now, units})
				if most := within(all, l, start, now); most > l.most() {
					t.Fatalf("%d units count at %s", most, now.Sub(start))
				}
			}
			if c.total != total || c.worst > l.most() {
				t.Errorf("charged %d and at worst %d, want %d and at most %d", c.total, c.worst, total, l.most())
			}
			if most := l.Oracle(now.Sub(start)); total > most+l.Quota || total < most*7/10 {
				t.Errorf("charged %d, and the oracle says %d", total, most)
			}
		})
	}
}

// within counts by definition, from a list of all units.
func within(all []spent, l Limit, start, now time.Time) (n int64) {
	switch {
	case l.Kind == Bucket:
		level, at := 0.0, start
		for _, s := range all {
			level = max(0, level-s.at.Sub(at).Seconds()*float64(l.Quota)/l.Per.Seconds()) + float64(s.units)
			at = s.at
		}
		return int64(level - 1e-3)
	case l.Lazy:
		var began time.Time
		for _, s := range all {
			if began.IsZero() || s.at.Sub(began) >= l.Per {
				began, n = s.at, 0
			}
			n += s.units
		}
		return n
	}
	since := now.Add(-l.Per)
	if l.Kind == Fixed {
		since = start.Add((now.Sub(start)+l.Phase)/l.Per*l.Per - l.Phase - 1)
	}
	for i := len(all) - 1; i >= 0 && all[i].at.After(since); i-- {
		n += all[i].units
	}
	return n
}

func TestLimitGivesBack(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, l := range []Limit{
		{Kind: Fixed, Quota: 100, Per: time.Minute},
		{Kind: Sliding, Quota: 100, Per: time.Minute},
		{Kind: Bucket, Quota: 100, Per: time.Minute},
	} {
		c := newCounter(l, at)
		c.add(at, 80)
		c.give(at, at, 30)
		if c.used(at) != 50 || c.total != 50 || c.full(at) == 0 {
			t.Errorf("%s: %d used, %d charged", l, c.used(at), c.total)
		}
		later := at.Add(time.Minute)
		if c.add(later, 70); c.used(later) != 70 {
			t.Errorf("%s: %d used, want 70", l, c.used(later))
		}
		if c.give(later, at, 20); l.Kind != Bucket && c.used(later) != 70 {
			t.Errorf("%s: units of the window before came back in this one: %d used", l, c.used(later))
		}
	}
}
