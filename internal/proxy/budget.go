package proxy

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// days are the budgets of tokens, each of the current day. They count the calls of this
// process as they are reserved. The ledger's spend by job adds those of other processes
// and of the time before a restart.
type days struct {
	ledger *quota.Ledger
	clock  quota.Clock
	log    *slog.Logger

	mu  sync.Mutex
	day map[string]*day // by the name of the token
}

// day is the budget of a token on one day.
type day struct {
	start  time.Time
	most   int64
	budget *meter.Budget
	asked  time.Time // when the ledger was last asked for the spend
}

// refreshed is how often the spend of other processes is read.
const refreshed = 10 * time.Second

// readTimeout bounds reading it.
const readTimeout = 5 * time.Second

// budget returns the budget of a token's calls today, or nil if it has none.
func (d *days) budget(ctx context.Context, t *Token) *meter.Budget {
	if t.Budget <= 0 {
		return nil
	}
	now := d.clock.Now().UTC()
	start := now.Truncate(24 * time.Hour)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.day == nil {
		d.day = map[string]*day{}
	}
	today := d.day[t.Name]
	if today == nil || !today.start.Equal(start) || today.most != t.Budget {
		today = &day{start: start, most: t.Budget, budget: meter.NewBudget(t.Budget)}
		d.day[t.Name] = today
	}
	switch first := today.asked.IsZero(); {
	case now.Sub(today.asked) < refreshed:
		return today.budget
	case first:
		d.read(ctx, t, today)
	default:
		go d.read(ctx, t, today)
	}
	today.asked = now
	return today.budget
}

// read adds to a budget what others have spent of it. A ledger that cannot be read has a
// policy of its own for calls.
func (d *days) read(ctx context.Context, t *Token, today *day) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	spent, err := d.spent(ctx, t, today.start)
	if err != nil {
		d.log.Warn("the budget of a token counts only the calls of this process", "token", t.Name, "error", err)
	}
	if more := spent - today.budget.Spent(); more > 0 {
		today.budget.Add(more)
	}
}

// spent returns what the ledger has of the jobs of a token since an instant.
func (d *days) spent(ctx context.Context, t *Token, since time.Time) (sum int64, err error) {
	all, err := d.ledger.Spend(ctx, quota.SpendQuery{Since: since}, quota.ByHour, quota.ByJob, quota.ByPool, quota.ByAccount)
	for _, s := range all {
		if s.Labels.Job == t.Name || strings.HasPrefix(s.Labels.Job, t.Name+"/") {
			sum += s.Units
		}
	}
	return sum, err
}

// tomorrow returns how long it is until the budgets of the next day.
func (d *days) tomorrow() time.Duration {
	now := d.clock.Now().UTC()
	return now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
}
