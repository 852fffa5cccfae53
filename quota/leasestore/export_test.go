package leasestore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Eager returns a store whose blocks are for at least so many calls, whatever their rate.
func Eager(store quota.Store, o *Options, calls int64) *Store {
	s := New(store, o)
	s.least = calls
	return s
}

// Open returns how many blocks a store has.
func (s *Store) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks)
}

// Closed reports whether Close was called.
func (s *Store) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Expire gives back what a timer would have given back before a simulated clock shows now.
func (s *Store) Expire(now time.Time) {
	s.mu.Lock()
	s.sweep(now)
	s.retry(now)
	s.mu.Unlock()
	s.tell(context.Background(), every)
}

// GiveBack gives back what all blocks have.
func (s *Store) GiveBack() { s.giveBack(context.Background(), every) }

// returned returns how often units may have come back to the store.
func (s *Store) returned() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back
}

// Lines returns how many lines a store remembers.
func (s *Store) Lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}
