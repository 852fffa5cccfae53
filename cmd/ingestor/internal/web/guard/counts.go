package guard

import (
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

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

// Complaints bounds the lines of a log: clients may cause any number. Of each kind there is
// one a minute, with the number of those that were left out.
type Complaints struct {
	clock quota.Clock

	mu   sync.Mutex
	last map[string]*complaint // by kind
}

// NewComplaints returns complaints that were never made.
func NewComplaints(clock quota.Clock) *Complaints {
	return &Complaints{clock: clock, last: map[string]*complaint{}}
}

type complaint struct {
	at      time.Time
	skipped int // since then
}

const complainEvery = time.Minute

// Due reports whether to log a kind again, and how many lines were left out.
func (c *Complaints) Due(kind string) (due bool, skipped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, last := c.clock.Now(), c.last[kind]
	if last != nil && now.Sub(last.at) < complainEvery {
		last.skipped++
		return false, 0
	}
	if last != nil {
		skipped = last.skipped
	}
	c.last[kind] = &complaint{at: now}
	return true, skipped
}
