package guard

import "sync"

// Shares divides a number of places among keys. A key may have as many as it leaves free for
// the others, so that a newcomer always finds some. A key that has none may take what is
// free.
type Shares[K comparable] struct {
	mu   sync.Mutex
	free int64
	of   map[K]int64
}

// NewShares returns shares of so many places.
func NewShares[K comparable](places int64) *Shares[K] {
	return &Shares[K]{free: places, of: map[K]int64{}}
}

// Take takes n places for a key, or none. A key that is alone may take all.
func (s *Shares[K]) Take(key K, n int64, alone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.of[key]; n > s.free || !alone && own > 0 && own+n > s.free {
		return false
	}
	s.free -= n
	s.of[key] += n
	return true
}

// Give gives back n places of a key.
func (s *Shares[K]) Give(key K, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if s.of[key] -= n; s.of[key] == 0 {
		delete(s.of, key)
	}
}

// Free returns how many places nobody has.
func (s *Shares[K]) Free() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
