// Package stretch lets a log say once what repeats: that the calls of a pool are refused.
package stretch

import (
	"maps"
	"sync"
	"time"
)

// Set has the stretches of refusals, by what their lines would say. The zero value is empty.
type Set[K comparable] struct {
	mu sync.Mutex
	of map[K]stretch
}

// stretch is a run of equal refusals. Its first one is logged.
type stretch struct {
	from, until time.Time
	more        int64 // refusals since its first one
}

// A stretch lasts as long as its first refusal said, within these bounds.
const (
	least = time.Minute
	most  = 15 * time.Minute
)

// maxStretches bounds a set. Beyond it, a line may be repeated.
const maxStretches = 1000

// Begins reports whether a refusal is the first of its stretch, and so gets a line. Units are
// expected back at retryAt. It also returns how many refusals of the stretch before got none.
func (s *Set[K]) Begins(k K, now, retryAt time.Time) (before int64, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.of[k]
	if known && was.lasts(now) {
		was.more++
		s.of[k] = was
		return 0, false
	}
	if !known && len(s.of) >= maxStretches {
		if maps.DeleteFunc(s.of, func(_ K, old stretch) bool { return !old.lasts(now) }); len(s.of) >= maxStretches {
			clear(s.of)
		}
	}
	if s.of == nil {
		s.of = make(map[K]stretch)
	}
	s.of[k] = stretch{from: now, until: now.Add(min(max(retryAt.Sub(now), least), most))}
	return was.more, true
}

// lasts reports whether a stretch lasts at a time. A clock that steps back ends it.
func (s *stretch) lasts(now time.Time) bool {
	return !now.Before(s.from.Add(-least)) && now.Before(s.until)
}
