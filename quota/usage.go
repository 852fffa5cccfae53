package quota

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Usage is the state of one pool.
type Usage struct {
	PageState
	BlockedBy  Blocker       // who shut it
	Allowances []WindowUsage // the windows, with their quota and headroom of the price book
	Keys       int           // of a page of a keyed pool: how many keys the pool has
	Learned    *Learned      // of a pool whose limit is learned; else nil
	Spaced     *Spacing      // how this process spaces its calls: see [Unexplained]; nil if it does not
	Waiting    []Waiting     // who waits for its units, in the order of their turns
	Step       string        // of a budget: what its steps do to calls now, or ""
	SpillsTo   string        // of a pool that is shut or has few units left: where calls go that lack them, or ""
	Idle       bool          // of the rate of a step of a budget: calls do not pass the step, so it bounds none of them
}

// WindowUsage is one window of a pool, as ordinary callers see it. Its Spec says what kind
// of window it is; its name is for people only.
type WindowUsage struct {
	WindowState
	Spec      window.Spec // what it counts over
	Quota     int64       // of the price book
	Headroom  int64       // of the price book
	Remaining int64
	// Reported is the limit of the upstream that holds in place of Quota: its answers have
	// reported it, or a person has set it. Zero is none.
	Reported int64
	// ReportedHeadroom is what ordinary callers leave free of Reported.
	ReportedHeadroom int64
	// ReportedUntil is when a reported limit ends, unless it is reported again. Zero: it
	// does not end by itself.
	ReportedUntil time.Time
	// ByHand is whether a person has set the reported limit.
	ByHand bool
}

// Usage returns the state of the pools of the price book, sorted by name. Their limits are
// those in force, also where an upstream's answer has told another one. A name of an
// upstream or account selects its pools; an empty one selects all. For a keyed pool, Usage
// returns a few keys, the fullest first: those charged last, and those of the price book.
// If the ledger has forgotten the spend of pools, Usage returns the others, and the
// [ForgottenError] of the first one.
func (v View) Usage(ctx context.Context, upstream, account string) ([]Usage, error) {
	l := v.ledger
	p, err := l.open(ctx, "look at the pools")
	if err != nil {
		return nil, err
	}
	var all []Usage
	var lost error
	for _, key := range p.accountKeys(upstream, account) {
		pools, err := p.pools(key.upstream, key.account, "")
		if err != nil {
			return nil, err
		}
		charges := make([]Charge, 0, len(pools))
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			if pools[name].pool == nil {
				charges = append(charges, pools[name].any)
			}
		}
		charges, reported, _ := l.adoptLimits(ctx, p, charges, "", noProbes)
		waiting := l.waiting(ctx, accountKey{upstream: key.upstream, account: key.account})
		mark := l.shut.noted.Load()
		read := func(c Charge, s PageState, reported []adopted) Usage {
			if s.Blocked.IsZero() {
				l.shut.opened(s.Pool, mark, s.Now)
			}
			u := usage(s, p.windows(c.Pool), reported)
			u.Waiting, u.Spaced = waitingFor(waiting, c.Pool), l.heard.spacingOf(c.Pool, l.now())
			if u.lacks(p.of(key.upstream, c.Pool.Name).dearest) {
				u.SpillsTo = p.book.Upstreams[key.upstream].SpillsTo(c.Pool.Name)
			}
			return u
		}
		charges, states, forgotten, err := l.look(ctx, charges)
		if err != nil {
			return nil, l.storeError(ctx, "look at "+key.upstream, err)
		}
		first := len(all)
		for i, s := range states {
			u := read(charges[i], s, reported)
			if u.Learned, err = l.lookLearned(ctx, p, s.Pool); err != nil {
				return nil, l.storeError(ctx, "read what was learned of "+s.Pool.String(), err)
			}
			all = append(all, u)
		}
		for _, k := range pools {
			if k.pool == nil {
				continue
			}
			keys, err := l.keyUsage(ctx, p, k, read)
			if f, ok := errors.AsType[*ForgottenError](err); ok {
				forgotten = append(forgotten, f)
			} else if err != nil {
				return nil, l.storeError(ctx, "look at "+key.upstream, err)
			}
			all = append(all, keys...)
		}
		if key.upstream == book.Budgets {
			for i := range all[first:] {
				u := &all[first+i]
				u.Step, u.Idle = p.stepOf(u, all[first:])
			}
		}
		slices.SortStableFunc(all[first:], func(a, b Usage) int { return strings.Compare(a.Pool.Name, b.Pool.Name) })
		if lost == nil && len(forgotten) > 0 {
			lost = l.storeError(ctx, "look at "+key.upstream, forgotten[0])
		}
	}
	if len(all) == 0 && lost == nil {
		return nil, p.known(upstream, account)
	}
	return all, lost
}

// lacks reports whether the pool is shut, or may lack the units of a call.
func (u *Usage) lacks(dearest int64) bool {
	return !u.Blocked.IsZero() || slices.ContainsFunc(u.Allowances, func(w WindowUsage) bool {
		return w.Remaining < max(min(dearest, w.Limit/nearlyUsed), 1)
	})
}

// windows returns the windows of a pool, or of a key, as the price book has them.
func (p *prices) windows(pool Pool) []book.Window {
	u := p.book.Upstreams[pool.Upstream]
	of := u.Pools[pool.Name]
	for key, own := range of.Keys {
		if pool.Key != "" && pageKey(key) == pool.Key {
			return own
		}
	}
	if p.isOther(u, pool.Account) {
		return of.WindowsFor(book.OtherAccounts)
	}
	return of.WindowsFor(pool.Account)
}

func usage(s PageState, windows []book.Window, reported []adopted) Usage {
	u := Usage{PageState: s}
	u.BlockedBy, u.Reason = readReason(s.Reason)
	for i, w := range s.Windows {
		u.Allowances = append(u.Allowances, WindowUsage{
			WindowState: w,
			Spec:        windows[i].Spec,
			Quota:       windows[i].Quota,
			Headroom:    windows[i].Headroom,
			Remaining:   max(w.Limit-w.Used, 0),
		})
	}
	for _, a := range reported {
		if a.pool == s.Pool {
			w := &u.Allowances[a.window]
			w.Reported, w.ReportedHeadroom, w.ReportedUntil, w.ByHand = a.quota, a.headroom, a.until, a.byHand
		}
	}
	return u
}

// accountKeys lists the accounts of the book, as ordinary callers. An account that is not
// listed must be named.
func (p *prices) accountKeys(upstream, account string) []accountKey {
	var keys []accountKey
	for key := range p.accounts {
		if key.class != "" || upstream != "" && key.upstream != upstream {
			continue
		}
		switch other := key.account == book.OtherAccounts; {
		case other && account != "" && p.isOther(p.book.Upstreams[key.upstream], account):
			keys = append(keys, accountKey{key.upstream, account, ""})
		case !other && (account == "" || key.account == account):
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b accountKey) int {
		return strings.Compare(a.upstream+"@"+a.account, b.upstream+"@"+b.account)
	})
	return keys
}

// known returns an error if the price book has no such upstream or account. Either may be
// empty.
func (p *prices) known(upstream, account string) error {
	if upstream != "" {
		_, err := p.pools(upstream, cmp.Or(account, DefaultAccount), "")
		return err
	}
	accounts := map[string]bool{}
	for _, key := range p.accountKeys("", "") {
		accounts[key.account] = true
	}
	if account == "" || accounts[account] {
		return nil
	}
	return BadInput("no upstream has an account %.40q; the price book has %s", account, names(accounts))
}

// Spend returns who spent what, for at least 30 days. It sums over every dimension that
// is not in by; without by it sums nothing. A query without upstream or account asks for
// all of them.
func (v View) Spend(ctx context.Context, q SpendQuery, by ...Dimension) ([]Spent, error) {
	l := v.ledger
	p, err := l.open(ctx, "read the spend")
	if err != nil {
		return nil, err
	}
	keys := p.accountKeys(q.Upstream, q.Account)
	if len(keys) == 0 {
		if err := p.known(q.Upstream, q.Account); err != nil {
			return nil, err
		}
	}
	q.Hours = q.Hours || slices.Contains(by, ByHour)
	var all []Spent
	for _, key := range keys {
		q.Upstream, q.Account = key.upstream, key.account
		spent, err := l.store.Spend(ctx, q)
		if err != nil {
			return nil, l.storeError(ctx, "read spend of "+key.upstream, err)
		}
		splitBill(spent)
		all = append(all, spent...)
	}
	return sumSpent(all, by...)
}

// Adjust corrects the used units of a pool, if something else spent units or a count was
// wrong. Positive units are charged now and may pass the limit. Negative units give back
// the oldest. It returns the units that it recorded, which are fewer if less was used
// than should be given back. The reason is kept in the spend.
func (a Admin) Adjust(ctx context.Context, pool Pool, units int64, reason string) (int64, error) {
	l := a.ledger
	if l.current() != nil && (units == 0 || units > window.MaxUnits || units < -window.MaxUnits) {
		return 0, BadInput("adjust %s: units must be 1 to %d, or as many less, not %d", pool, window.MaxUnits, units)
	}
	pool, units, err := l.correct(ctx, "adjust", pool, units, reason)
	if err != nil {
		return 0, err
	}
	l.refusals.clear()
	l.line.freed([]Pool{pool}, 0, l.clock.Now())
	l.tell(ctx, Event{Kind: EventAdjusted, Pool: pool, Units: units, Reason: reason})
	return units, nil
}

// correct records units by hand. It returns the whole name of the pool, and what was recorded.
func (l *Ledger) correct(ctx context.Context, op string, pool Pool, units int64, reason string) (Pool, int64, error) {
	c, err := l.current().pool(pool)
	if err != nil {
		return pool, 0, err
	}
	if reason == "" {
		return pool, 0, BadInput("%s %s: say why; the reason is kept in the spend", op, pool)
	}
	op += " " + pool.String()
	if err := tooLate(ctx, op); err != nil {
		return pool, 0, err
	}
	c.Units = units
	recorded, err := l.store.Record(ctx, Request{ID: l.ids.next(), Charges: []Charge{c}, Labels: Labels{Reason: reason}, Restore: true})
	if err != nil {
		return pool, 0, l.storeError(ctx, op, err)
	}
	return c.Pool, recorded[c.Pool.Name], nil
}
