package guard

import "sync"

// Counts bounds how many of something each key has at once.
type Counts[K comparable] struct {
	most int

	mu sync.Mutex
	of map[K]int
}

// NewCounts returns counts with at most so many for each key.
func NewCounts[K comparable](most int) *Counts[K] { return &Counts[K]{most: most, of: map[K]int{}} }

// Begin counts one more, unless the key has too many.
func (c *Counts[K]) Begin(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[key] >= c.most {
		return false
	}
	c.of[key]++
	return true
}

// End counts one less.
func (c *Counts[K]) End(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	less(c.of, key)
}

func less[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}
