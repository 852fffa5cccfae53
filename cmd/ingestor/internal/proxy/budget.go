package proxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Budgets are those of tokens, each of the current day. They count the calls of this
// process as they are reserved. The ledger's spend by job adds those of other processes
// and of the time before a restart.
//
// A ledger tells only so many sets of labels apart in an hour, and adds up the rest without
// the name of a token. So a token may use a part of them. Beyond that, its calls have the
// name of the token alone.
type Budgets struct {
	ledger *quota.Ledger
	clock  quota.Clock
	log    *slog.Logger

	mu     sync.Mutex
	tokens map[string]*access.Grant
	start  time.Time          // of the day
	spends map[string]*budget // by token
	hour   time.Time          // of the sets
	sets   map[string]map[quota.Labels]struct{}
	asked  time.Time     // when the ledger was last asked for the spend
	asks   chan struct{} // closed when the ledger is not asked any more; nil: it never was
	first  chan struct{} // closed once it has answered
	once   sync.Once
}

// budget is that of a token on one day.
type budget struct {
	most   int64
	whole  *meter.Budget
	own    *meter.Budget // the part of this process
	others int64         // of the whole: spent by other processes, and before a restart
}

// newBudget returns a budget of which so much is spent.
func newBudget(most, own, others int64) *budget {
	b := &budget{most: most, whole: meter.NewBudget(most), others: others}
	b.whole.Add(others)
	b.own = b.whole.Part()
	b.own.Add(own)
	return b
}

// correct sets what others have spent: all, the ledger's count, less own, which is what this
// process had spent before it asked the ledger. What it has spent or settled since may be in
// all or not, so the number changes only as far as it must.
func (b *budget) correct(all, own int64) {
	now := b.own.Spent()
	others := max(min(max(b.others, all-max(own, now)), all-min(own, now)), 0)
	b.whole.Add(others - b.others)
	b.others = others
}

const (
	// refreshed is how often the spend of other processes is read.
	refreshed = 10 * time.Second
	// readTimeout bounds reading it.
	readTimeout = 5 * time.Second
	// mostSets is how many sets of labels all tokens may use in an hour: half of what a
	// ledger tells apart. The others are for jobs that do not call through the proxy.
	mostSets = 1000
)

// NewBudgets returns the budgets of tokens that spend from a ledger. A nil clock is the
// machine's, and a nil log the default one.
func NewBudgets(ledger *quota.Ledger, clock quota.Clock, log *slog.Logger) *Budgets {
	return &Budgets{ledger: ledger, clock: cmp.Or[quota.Clock](clock, quota.SystemClock{}), log: cmp.Or(log, slog.Default())}
}

// Update replaces the tokens.
func (d *Budgets) Update(tokens map[string]*access.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tokens = tokens
}

// Today implements [access.Budgets]. It counts the calls of a token that do not come through the
// proxy.
func (d *Budgets) Today(ctx context.Context, name string) access.Budget {
	d.await(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enter(d.clock.Now().UTC())
	if g := d.tokens[name]; g != nil && g.Budget.Units() > 0 {
		return d.budget(name, g.Budget.Units()).own
	}
	return nil
}

// await waits until the spend of other processes was read once.
func (d *Budgets) await(ctx context.Context) {
	select {
	case <-d.read(ctx):
	case <-ctx.Done(): // the call fails by itself
	}
}

// begin bounds the labels of a call, and returns the budget that it spends from, or nil if
// the token has none.
func (d *Budgets) begin(c *call) *meter.Budget {
	if ctx := c.request.Context(); c.token.Grant().Budget.Units() > 0 {
		d.await(ctx)
	} else {
		d.read(ctx)
	}
	now := d.clock.Now().UTC()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enter(now)
	labels := quota.Labels{Method: c.method(), Job: c.token.Job(c.labels.Job), Region: c.labels.Region, Class: c.labels.Class}
	if !d.fits(c.token.Name(), labels) {
		c.labels.Job, c.labels.Region = "", ""
	}
	if b := d.budget(c.token.Name(), c.token.Grant().Budget.Units()); b != nil {
		return b.own
	}
	return nil
}

// enter begins a new day, and a new hour. An older instant changes neither.
func (d *Budgets) enter(now time.Time) {
	if start := now.Truncate(24 * time.Hour); start.After(d.start) {
		d.start, d.spends = start, map[string]*budget{}
	}
	if hour := now.Truncate(time.Hour); hour.After(d.hour) {
		d.hour, d.sets = hour, map[string]map[quota.Labels]struct{}{}
	}
}

// fits notes that a token uses a set of labels in this hour, unless it uses too many.
func (d *Budgets) fits(token string, labels quota.Labels) bool {
	known := d.sets[token]
	if known == nil {
		known = map[quota.Labels]struct{}{}
		d.sets[token] = known
	}
	if _, is := known[labels]; !is && len(known) >= max(mostSets/max(len(d.tokens), 1), 1) {
		return false
	}
	known[labels] = struct{}{}
	return true
}

// budget returns the budget of a token's calls today, or nil if it has none.
func (d *Budgets) budget(name string, most int64) *budget {
	if most <= 0 {
		return nil
	}
	b := d.spends[name]
	switch {
	case b == nil:
		b = newBudget(most, 0, 0)
	case b.most != most:
		b = newBudget(most, b.own.Spent(), b.others)
	}
	d.spends[name] = b
	return b
}

// read has the spend of other processes read, if it is time. It returns what is closed once
// it was read first, or could not be: an outage has a policy of its own for calls.
func (d *Budgets) read(ctx context.Context) (first <-chan struct{}) {
	now := d.clock.Now().UTC()
	d.mu.Lock()
	defer d.mu.Unlock()
	begins := d.first == nil
	if begins {
		d.first = make(chan struct{})
	}
	if begins || d.bounded() && now.Sub(d.asked) >= refreshed {
		before, asks := d.asks, make(chan struct{})
		d.asked, d.asks = now, asks
		go func() {
			defer close(asks)
			d.refresh(context.WithoutCancel(ctx), now)
			if before != nil {
				<-before
			}
		}()
	}
	return d.first
}

// Flush waits until the ledger is not asked for the spend any more. It can be closed then.
func (d *Budgets) Flush(ctx context.Context) error {
	d.mu.Lock()
	asks := d.asks
	d.mu.Unlock()
	if asks == nil {
		return nil
	}
	select {
	case <-asks:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Budgets) bounded() bool {
	for _, t := range d.tokens {
		if t.Budget.Units() > 0 {
			return true
		}
	}
	return false
}

// refresh adds to the budgets what others have spent of them.
func (d *Budgets) refresh(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	today := now.Truncate(24 * time.Hour)
	before := d.own(now)
	all, err := d.spent(ctx, today)
	if err != nil {
		d.log.Warn("the budgets of tokens count only the calls of this process", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.once.Do(func() { close(d.first) })
	if !d.start.Equal(today) { // the day ended while the ledger was asked
		return
	}
	sums := map[string]int64{}
	for _, s := range all {
		name, _, _ := strings.Cut(s.Labels.Job, "/")
		if d.tokens[name] == nil {
			continue
		}
		sums[name] += s.Units
		if s.Hour.Equal(d.hour) {
			d.fits(name, s.Labels)
		}
	}
	for name, t := range d.tokens {
		b := d.budget(name, t.Budget.Units())
		if b == nil {
			continue
		}
		if err != nil { // what could not be read is not gone
			sums[name] = max(sums[name], b.whole.Spent())
		}
		b.correct(sums[name], before[name])
	}
}

// own returns what this process has spent of the day's budgets.
func (d *Budgets) own(now time.Time) map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enter(now)
	all := make(map[string]int64, len(d.spends))
	for name, b := range d.spends {
		all[name] = b.own.Spent()
	}
	return all
}

// spent returns what the ledger has of the calls since an instant, also of accounts that only
// a token names.
func (d *Budgets) spent(ctx context.Context, since time.Time) ([]quota.Spent, error) {
	all, err := d.ledger.View().Spend(ctx, quota.SpendQuery{Since: since, Hours: true})
	for pool := range d.unlisted() {
		more, failed := d.ledger.View().Spend(ctx, quota.SpendQuery{Since: since, Hours: true, Upstream: pool.Upstream, Account: pool.Account})
		all, err = append(all, more...), errors.Join(err, failed)
	}
	return all, err
}

// unlisted returns the accounts that tokens name and the price book does not list.
func (d *Budgets) unlisted() map[quota.Pool]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[quota.Pool]bool{}
	for _, t := range d.tokens {
		for _, name := range t.Upstreams {
			u := d.ledger.Book().Upstreams[name]
			for _, account := range t.Accounts {
				if u != nil && u.AnyAccount && account != access.AnyAccount && !slices.Contains(u.Accounts, account) {
					all[quota.Pool{Upstream: name, Account: account}] = true
				}
			}
		}
	}
	return all
}

// tomorrow returns how long it is until the budgets of the next day.
func tomorrow(now time.Time) time.Duration {
	return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
}
