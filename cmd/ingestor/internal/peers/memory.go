package peers

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota"
)

// Memory keeps limiters in memory. Each is for one goroutine.
type Memory struct{ Clock quota.Clock }

// Fixed implements [Home].
func (m *Memory) Fixed(_ string, r boundary.Rate) boundary.Limiter {
	var window int64
	var count int
	return func(context.Context) (time.Time, bool, error) {
		now := m.Clock.Now()
		if w := windowOf(now, r); w != window {
			window, count = w, 0
		}
		if count >= r.Limit {
			return time.Time{}, false, nil
		}
		count++
		return now, true, nil
	}
}

// GCRA implements [Home].
func (m *Memory) GCRA(_ string, r boundary.Rate) boundary.Limiter {
	var tat time.Time // the theoretical arrival time, as if the accepted requests had come evenly
	every := emission(r)
	return func(context.Context) (time.Time, bool, error) {
		now := m.Clock.Now()
		next := now
		if tat.After(now) {
			next = tat
		}
		next = next.Add(every)
		if next.Sub(now) > time.Duration(r.Limit)*every {
			return time.Time{}, false, nil
		}
		tat = next
		return now, true, nil
	}
}
