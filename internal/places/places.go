// Package places divides a fixed number of places among keys.
package places

import "sync"

// Places are divided among keys. A key may have as many as it leaves free for the others, so
// that a newcomer always finds some. A key that has none may take what is free.
type Places[K comparable] struct {
	mu   sync.Mutex
	free int64
	of   map[K]int64
}

// New returns n free places.
func New[K comparable](n int64) *Places[K] {
	return &Places[K]{free: n, of: map[K]int64{}}
}

// Take takes n places for a key, or none. A key that is alone may take all.
func (p *Places[K]) Take(key K, n int64, alone bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.of[key]; n > p.free || !alone && own > 0 && own+n > p.free {
		return false
	}
	p.free -= n
	p.of[key] += n
	return true
}

// Give gives back n places of a key.
func (p *Places[K]) Give(key K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	if p.of[key] -= n; p.of[key] == 0 {
		delete(p.of, key)
	}
}

// Free returns how many places nobody has.
func (p *Places[K]) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}
