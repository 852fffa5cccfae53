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
	pools quota.Units // by [quota.Pool.String]
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

// Pools returns the units of the calls so far by pool, such as youtube/units. Units that were
// spent elsewhere have no pool.
func (b *Budget) Pools() quota.Units {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.pools)
}

// Add counts units that were spent elsewhere, such as in another process. It may exceed the
// bound. A negative number takes units back.
func (b *Budget) Add(units int64) { b.give(-units) }

// Take counts units before they are spent elsewhere, or returns a [BudgetError] if they exceed
// the budget. A nil Budget has no bounds.
func (b *Budget) Take(units int64) error {
	if b == nil {
		return nil
	}
	if err := b.whole.Take(units); err != nil {
		return err
	}
	b.mu.Lock()
	if b.most > 0 && b.spent+units > b.most {
		err := &BudgetError{Units: units, Spent: b.spent, Most: b.most}
		b.mu.Unlock()
		b.whole.give(units)
		return err
	}
	b.spent += units
	b.mu.Unlock()
	return nil
}

// give takes back units that a call has not cost.
func (b *Budget) give(units int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.spent -= units
	b.mu.Unlock()
	b.whole.give(units)
}

// count notes which pools of a call's account have the units, times a sign.
func (b *Budget) count(c *call, units quota.Units, sign int64) {
	for ; b != nil; b = b.whole {
		b.mu.Lock()
		if b.pools == nil {
			b.pools = quota.Units{}
		}
		for pool, n := range units {
			if pool == book.Money || n == 0 {
				continue
			}
			name := quota.Pool{Upstream: c.upstream.Name, Account: c.account, Name: pool}.String()
			if b.pools[name] += sign * n; b.pools[name] == 0 {
				delete(b.pools, name)
			}
		}
		b.mu.Unlock()
	}
}

// WithBudget counts the units of the calls of a context in a budget, and refuses
// what it has not left.
func WithBudget(ctx context.Context, b *Budget) context.Context {
	return with(ctx, func(c *Caller) { c.Budget = b })
}
