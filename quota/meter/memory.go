package meter

import "sync"

// mostLearned is how many costs are remembered. For more of them others are forgotten.
const mostLearned = 4096

// costOf names what is learned: the cost of a method's calls in one pool.
type costOf struct {
	Upstream, Account, Method, Pool string
	Key                             string `json:",omitempty"` // of a keyed pool
}

// costOf names what the cost of a call in a pool teaches.
func (c *call) costOf(pool string) costOf {
	return costOf{c.upstream.Name, c.account, c.name, pool, c.keys[pool]}
}

// memory remembers what recent calls have cost.
type memory struct {
	mu     sync.Mutex
	costs  map[costOf]*recent
	shared map[costOf]*sharedCosts // by method
}

// recall returns the units that a share of the recent calls, in percent, stayed within, or
// their mean if that is more. It returns false if too few are known.
func (m *memory) recall(of costOf, share int) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.costs[of]
	if c == nil || c.Seen < enoughCalls {
		return 0, false
	}
	return c.within(share), true
}

func (m *memory) learn(of costOf, units int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.costs[of]
	if c == nil {
		c = &recent{}
		m.costs[of] = c
		m.bound()
	}
	c.add(units)
}
