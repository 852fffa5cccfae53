package view

import (
	"sync"
	"time"
)

// Counting says how the comparison with an upstream's own count goes. The zero value has
// compared nothing. It is safe for concurrent use.
type Counting struct {
	mu   sync.Mutex
	last CountState
}

// CountState is the outcome of the last comparison.
type CountState struct {
	Read   time.Time // when the count was last read and compared; zero: never
	Failed time.Time // when comparing began to fail; zero: the last comparison did not
	Err    error     // why, of the last comparison
}

// Counted notes the outcome of a comparison.
func (c *Counting) Counted(at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.last.Err = err; {
	case err == nil:
		c.last = CountState{Read: at}
	case c.last.Failed.IsZero():
		c.last.Failed = at
	}
}

// State returns the outcome of the last comparison.
func (c *Counting) State() CountState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
