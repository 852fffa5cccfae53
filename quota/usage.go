package quota

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Usage is how one pool stands.
type Usage struct {
	PageState
	Allowances []WindowUsage // the windows with what the price book says of them
}

// WindowUsage is one window of a pool, as ordinary callers see it.
type WindowUsage struct {
	WindowState
	Quota     int64
	Headroom  int64
	Remaining int64
}

// Usage returns how the pools of the price book stand, sorted by name; upstream
// and account narrow it down if not empty.
func (l *Ledger) Usage(ctx context.Context, upstream, account string) ([]Usage, error) {
	p := l.prices.Load()
	var all []Usage
	for _, key := range p.accountKeys(upstream, account) {
		pools := p.accounts[key]
		charges := make([]Charge, 0, len(pools))
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			charges = append(charges, *pools[name])
		}
		states, err := l.store.Look(ctx, charges)
		if err != nil {
			return nil, l.storeError(ctx, "look at "+key.upstream, err)
		}
		for _, s := range states {
			all = append(all, usage(s, p.book.Upstreams[key.upstream].Pools[s.Pool.Name].of(key.account)))
		}
	}
	if len(all) == 0 && upstream+account != "" {
		_, err := p.pools(upstream, cmp.Or(account, DefaultAccount), "")
		return nil, err
	}
	return all, nil
}

func usage(s PageState, windows []Window) Usage {
	u := Usage{PageState: s}
	for i, w := range s.Windows {
		u.Allowances = append(u.Allowances, WindowUsage{
			WindowState: w,
			Quota:       windows[i].Quota,
			Headroom:    windows[i].Headroom,
			Remaining:   max(w.Limit-w.Used, 0),
		})
	}
	return u
}

// accountKeys lists the accounts of the book, as ordinary callers.
func (p *prices) accountKeys(upstream, account string) []accountKey {
	var keys []accountKey
	for key := range p.accounts {
		if key.class == "" && (upstream == "" || key.upstream == upstream) && (account == "" || key.account == account) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b accountKey) int {
		return strings.Compare(a.upstream+"@"+a.account, b.upstream+"@"+b.account)
	})
	return keys
}

// Spend returns who spent what, summed over every dimension that is not in by;
// without by it returns all there is. A query without upstream or account asks
// for all that the price book has.
func (l *Ledger) Spend(ctx context.Context, q SpendQuery, by ...Dimension) ([]Spent, error) {
	var all []Spent
	for _, key := range l.prices.Load().accountKeys(q.Upstream, q.Account) {
		q.Upstream, q.Account = key.upstream, key.account
		spent, err := l.store.Spend(ctx, q)
		if err != nil {
			return nil, l.storeError(ctx, "read spend of "+key.upstream, err)
		}
		all = append(all, spent...)
	}
	return SumSpent(all, by...)
}

// Block shuts a pool for every process until a time: the upstream said no. The
// later of two blocks stands, and it opens by itself.
func (l *Ledger) Block(ctx context.Context, pool Pool, until time.Time, reason string) error {
	if until.Sub(l.clock.Now()) > maxBlock { // a misread answer must not shut a pool for ever
		return BadInput("block %s: %s is too far off; a block may last %s at most", pool, until.UTC().Format(time.RFC3339), roundUp(maxBlock))
	}
	return l.block(ctx, pool, BlockRequest{Until: until, Reason: reason})
}

// BlockFor shuts a pool for a while, counted by the store's clock: what a
// Retry-After asks for.
func (l *Ledger) BlockFor(ctx context.Context, pool Pool, d time.Duration, reason string) error {
	return l.block(ctx, pool, BlockRequest{For: d, Reason: reason})
}

// What a refusal that names no time means.
const (
	// graceAfterReset is how long after a reset a daily refusal may be of the
	// period before: the upstream's midnight is not ours to the second.
	graceAfterReset = 15 * time.Minute
	// blockWithoutReset is how long a pool is shut that has no calendar.
	blockWithoutReset = time.Hour
)

// BlockUntilReset shuts a pool until its calendar's next boundary, because the
// upstream said that its quota is used up. In the first 15 minutes of a period it
// is shut until their end only; a pool without a calendar is shut for an hour.
func (l *Ledger) BlockUntilReset(ctx context.Context, pool Pool, reason string) error {
	c, err := l.prices.Load().pool(pool)
	if err != nil {
		return err
	}
	now := window.At(l.clock.Now())
	until := now.Add(blockWithoutReset)
	longest := time.Duration(0)
	for _, w := range c.Windows {
		if w.Spec.Algorithm != window.ByCalendar || w.Spec.Span() < longest {
			continue
		}
		longest = w.Spec.Span()
		start, end := w.Spec.Bounds(now)
		until = end
		if grace := start.Add(graceAfterReset); now < grace && grace < end {
			until = grace
		}
	}
	return l.block(ctx, pool, BlockRequest{Until: until.Time(), Reason: reason})
}

// Unblock opens a pool.
func (l *Ledger) Unblock(ctx context.Context, pool Pool) error {
	return l.block(ctx, pool, BlockRequest{Open: true})
}

func (l *Ledger) block(ctx context.Context, pool Pool, b BlockRequest) error {
	c, err := l.prices.Load().pool(pool)
	if err != nil {
		return err
	}
	b.Charges = []Charge{c}
	if err := b.Check(); err != nil {
		return err
	}
	if b.Open { // what the journal holds would shut it again
		var left *leftError
		if err := l.Replay(ctx); err != nil && !errors.As(err, &left) {
			return err
		}
	}
	if err := l.store.Block(ctx, b); err != nil {
		err = l.storeError(ctx, "block "+pool.String(), err)
		if l.journal == nil || b.Open || !errors.Is(err, ErrOutage) {
			return err
		}
		if err := l.blockUnseen(ctx, pool, b, err); err != nil {
			return err
		}
	}
	if l.watch != nil {
		e := Event{Kind: EventShut, Pool: pool, Until: b.Until, Reason: b.Reason}
		if b.For > 0 {
			e.Until = l.clock.Now().Add(b.For)
		}
		if b.Open {
			e.Kind = EventOpened
		}
		l.watch.Observe(e)
	}
	return nil
}

// blockUnseen writes a block down that the ledger cannot be told of.
func (l *Ledger) blockUnseen(ctx context.Context, pool Pool, b BlockRequest, outage error) error {
	now := l.clock.Now().Add(time.Duration(l.offset.Load()))
	e := Entry{ID: l.ids.next(), At: now, Charges: []EntryCharge{{Pool: pool}}, Until: b.Until, Reason: b.Reason}
	if b.For > 0 {
		e.Until = now.Add(b.For)
	}
	l.pending.Store(true)
	if err := l.journal.Block(ctx, e); err != nil {
		return &OutageError{Op: "block " + pool.String(), Reason: "and the journal cannot be written", Err: errors.Join(outage, err)}
	}
	return nil
}

// Adjust corrects what is used of a pool, because something else spent units or
// a count was wrong: more charges now and may pass the limit, less gives back
// the oldest. The reason is kept in the spend.
func (l *Ledger) Adjust(ctx context.Context, pool Pool, units int64, reason string) error {
	c, err := l.prices.Load().pool(pool)
	if err != nil {
		return err
	}
	if units == 0 || units > window.MaxUnits || units < -window.MaxUnits {
		return BadInput("adjust %s: units must be 1 to %d, or as many less, not %d", pool, window.MaxUnits, units)
	}
	if reason == "" {
		return BadInput("adjust %s: say why; the reason is kept in the spend", pool)
	}
	c.Units = units
	err = l.store.Record(ctx, Request{ID: l.ids.next(), Charges: []Charge{c}, Labels: Labels{Reason: reason}, Restore: true})
	if err != nil {
		return l.storeError(ctx, "adjust "+pool.String(), err)
	}
	if l.watch != nil {
		l.watch.Observe(Event{Kind: EventAdjusted, Pool: pool, Units: units, Reason: reason})
	}
	return nil
}
