package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// ErrBudget is matched by a [BudgetError].
var ErrBudget = errors.New("over budget")

// BudgetError says that a call would cost more than its [Budget] has left. It was
// not sent.
type BudgetError struct{ Units, Spent, Most int64 }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the call costs %d and %d of the budget of %d are spent", e.Units, e.Spent, e.Most)
}

func (e *BudgetError) Is(target error) bool { return target == ErrBudget }

// Budget counts the units of the calls of a context, and may bound them, of all pools
// together: what one run spends. It is safe for concurrent use.
type Budget struct {
	most  int64
	whole *Budget // it is a part of

	mu    sync.Mutex
	spent int64
	pools map[string]int64 // by [quota.Pool.String]
}

// NewBudget returns a budget of so many units; 0 only counts.
func NewBudget(most int64) *Budget { return &Budget{most: most} }

// Part returns a budget that counts by itself what is also counted, and bounded, by
// b.
func (b *Budget) Part() *Budget { return &Budget{whole: b} }

// Spent returns the units of the calls so far. A call counts as it was reserved until it is
// settled, and from then on as what it has cost.
func (b *Budget) Spent() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// Pools returns the units of the calls so far by pool, such as youtube/units: with those that were
// spent elsewhere, and so have no pool, they are what Spent returns. Budgets in money have the millionths that
// the calls spent of them, such as budgets/team, which Spent leaves out.
func (b *Budget) Pools() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.pools)
}

// Add counts units that were spent elsewhere, such as in another process. It may exceed the
// bound. A negative number takes units back.
func (b *Budget) Add(units int64) { b.add(spending{units: units}) }

// Take counts units before they are spent elsewhere, or returns a [BudgetError] if they exceed
// the budget. A nil Budget has no bounds.
func (b *Budget) Take(units int64) error { return b.take(spending{units: units}) }

func (b *Budget) take(s spending) error {
	if b == nil {
		return nil
	}
	if err := b.whole.take(s); err != nil {
		return err
	}
	b.mu.Lock()
	if b.most > 0 && b.spent+s.units > b.most {
		err := &BudgetError{Units: s.units, Spent: b.spent, Most: b.most}
		b.mu.Unlock()
		b.whole.add(s.back())
		return err
	}
	b.count(s)
	b.mu.Unlock()
	return nil
}

func (b *Budget) add(s spending) {
	for ; b != nil; b = b.whole {
		b.mu.Lock()
		b.count(s)
		b.mu.Unlock()
	}
}

// count counts units. The caller has the lock.
func (b *Budget) count(s spending) {
	b.spent += s.units
	if b.pools == nil {
		b.pools = map[string]int64{}
	}
	for pool, units := range s.pools {
		if b.pools[pool] += units; b.pools[pool] == 0 {
			delete(b.pools, pool)
		}
	}
}

// spending is what a call spends, or gives back.
type spending struct {
	units int64
	pools map[string]int64 // the same by pool; nil: not known
}

// spends returns what a call spends that is charged after, and was charged before. Money counts by budget only.
func (c *call) spends(after, before quota.Units) spending {
	s := spending{pools: make(map[string]int64, len(after))}
	count := func(units quota.Units, sign int64) {
		for pool, n := range units {
			if pool == book.Money {
				for _, budget := range c.budgets() {
					s.pools[book.BudgetKey(budget.Name)] += sign * n
				}
				continue
			}
			s.units += sign * n
			s.pools[quota.Pool{Upstream: c.upstream.Name, Account: c.account, Name: pool}.String()] += sign * n
		}
	}
	count(after, 1)
	count(before, -1)
	return s
}

func (s spending) back() spending {
	other := spending{-s.units, make(map[string]int64, len(s.pools))}
	for pool, units := range s.pools {
		other.pools[pool] = -units
	}
	return other
}

// WithBudget counts the units of the calls of a context in a budget, and refuses
// what it has not left.
func WithBudget(ctx context.Context, b *Budget) context.Context {
	return with(ctx, func(c *Caller) { c.Budget = b })
}
