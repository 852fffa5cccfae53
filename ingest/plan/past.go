package plan

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Past is what was spent before a plan begins, and which pools are shut.
type Past struct {
	Spent  []Spent
	Blocks []Block
}

// Spent are units of a pool, and when they were spent.
type Spent struct {
	Pool  quota.Pool
	At    time.Time
	Units int64
}

// Block is a pool that is shut until a time.
type Block struct {
	Pool   quota.Pool
	Until  time.Time
	Reason string
}

// PastOf asks a ledger what was spent. If its store goes by the clock, that is moved to
// see when each unit comes back, which tells when it was spent; without one, what does
// not come back next is taken to be spread over the time in which it can have been
// spent. It charges nothing.
func PastOf(ctx context.Context, l *quota.Ledger, clock *quota.SimClock) (*Past, error) {
	now, err := l.Usage(ctx, upstream, "")
	if err != nil {
		return nil, err
	}
	past := &Past{}
	for _, u := range now {
		if u.Blocked.After(u.Now) {
			reason := u.Reason
			if u.BlockedBy == quota.BlockedByPerson {
				reason = quota.ByHand(reason)
			}
			past.Blocks = append(past.Blocks, Block{u.Pool, u.Blocked, reason})
		}
		windows := l.Book().Upstreams[upstream].Pools[u.Pool.Name].WindowsFor(u.Pool.Account)
		spent, err := slidingPast(ctx, l, clock, u, windows)
		if err != nil {
			return nil, err
		}
		past.Spent = append(past.Spent, calendarPast(spent, u, windows)...)
	}
	slices.SortStableFunc(past.Spent, func(a, b Spent) int { return a.At.Compare(b.At) })
	return past, nil
}

// slidingPast is what the longest sliding window of a pool has counted.
func slidingPast(ctx context.Context, l *quota.Ledger, clock *quota.SimClock, u quota.Usage, windows []book.Window) (all []Spent, err error) {
	longest := -1
	for i, w := range windows {
		if w.Per > 0 && (longest < 0 || w.Per > windows[longest].Per) {
			longest = i
		}
	}
	if longest < 0 {
		return nil, nil
	}
	now, per, used := u.Now, windows[longest].Per, u.Allowances[longest].Used
	for w := u.Allowances[longest]; used > 0 && w.NextUnits > 0; w = u.Allowances[longest] {
		at := w.NextAt.Add(-per - time.Microsecond) // within its bucket
		all = append(all, Spent{u.Pool, earlier(at, now), w.NextUnits})
		if used -= w.NextUnits; clock == nil || used <= 0 {
			break
		}
		clock.Set(w.NextAt)
		u, err = look(ctx, l, u.Pool)
		clock.Set(now)
		if err != nil {
			return nil, err
		}
	}
	return append(all, guess(all, u, windows, now, per, used)...), nil
}

// guess spreads units that are still in a sliding window, and of which no more is known
// than what the calendar has counted.
func guess(sure []Spent, u quota.Usage, windows []book.Window, now time.Time, per time.Duration, units int64) (all []Spent) {
	until := now
	for i, w := range windows {
		if w.Period == "" || w.Span() > 2*per {
			continue
		}
		begun, _ := w.Bounds(window.At(now))
		since := begun.Time()
		part := min(units, u.Allowances[i].Used-sum(sure, since))
		if part > 0 && since.After(now.Add(-per)) && since.Before(until) {
			all = append(all, spread(u.Pool, since, until, part)...)
			units, until = units-part, since
		}
	}
	if units > 0 {
		all = append(all, spread(u.Pool, now.Add(-per), until, units)...)
	}
	return all
}

// sum adds up what was spent since a time.
func sum(all []Spent, since time.Time) (units int64) {
	for _, s := range all {
		if !s.At.Before(since) {
			units += s.Units
		}
	}
	return units
}

// look is how one pool stands.
func look(ctx context.Context, l *quota.Ledger, pool quota.Pool) (quota.Usage, error) {
	all, err := l.Usage(ctx, pool.Upstream, pool.Account)
	i := slices.IndexFunc(all, func(u quota.Usage) bool { return u.Pool == pool })
	if err != nil || i < 0 {
		return quota.Usage{}, err
	}
	return all[i], nil
}

// calendarPast adds what calendars have counted beyond that: all of a pool that has no
// sliding window, and of others what was spent longer ago.
func calendarPast(all []Spent, u quota.Usage, windows []book.Window) []Spent {
	order := make([]int, 0, len(windows))
	for i, w := range windows {
		if w.Period != "" {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(windows[a].Span(), windows[b].Span()) })
	latest := u.Now
	for _, i := range order {
		begun, _ := windows[i].Bounds(window.At(u.Now))
		start := begun.Time()
		if rest := u.Allowances[i].Used - sum(all, start); rest > 0 {
			at := latest
			if at.Before(start) {
				at = start
			}
			all = append(all, Spent{u.Pool, at, rest})
		}
		latest = start.Add(-2 * max(windows[i].Lag, time.Minute)) // outside of this period, and of its lag
	}
	return all
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// spread are units spent from one time to another, an hour apart.
func spread(pool quota.Pool, from, to time.Time, units int64) (all []Spent) {
	parts := max(int64(to.Sub(from)/time.Hour), 1)
	for i := range parts {
		if part := units*(i+1)/parts - units*i/parts; part > 0 {
			all = append(all, Spent{pool, from.Add(time.Duration(i+1) * to.Sub(from) / time.Duration(parts)), part})
		}
	}
	return all
}

// spend begins the ledger of a plan, and the simulated upstream, with what was spent
// before. It leaves the clock where the plan begins.
func (s *scenario) spend(ctx context.Context, r *rig) error {
	defer r.clock.Set(s.from)
	if s.options.Past == nil {
		return nil
	}
	today := midnight(s.from, s.zone, 0)
	for _, one := range s.options.Past.Spent {
		one.At = earlier(one.At, s.from)
		r.clock.Set(one.At)
		if _, err := r.ledger.Adjust(ctx, one.Pool, one.Units, before); err != nil {
			return err
		}
		if !one.At.Before(today) {
			r.spendUpstream(one)
		}
	}
	r.clock.Set(s.from)
	for _, b := range s.options.Past.Blocks {
		if b.Until.After(s.from) {
			if err := r.ledger.Block(ctx, b.Pool, b.Until, b.Reason); err != nil {
				return err
			}
		}
	}
	return nil
}

// before is the reason of the corrections by which a ledger begins with what was spent.
const before = "spent before the plan begins"

// spendUpstream makes calls that the simulated upstream charges, and refuses as
// nonsense.
func (r *rig) spendUpstream(one Spent) {
	u := r.ledger.Book().Upstreams[upstream]
	for _, method := range simulatedPools {
		m := u.Methods[method.name]
		if m == nil || m.Charges[one.Pool.Name] == 0 {
			continue
		}
		for range one.Units / m.Charges[one.Pool.Name] {
			req, err := http.NewRequest(http.MethodGet, "http://localhost"+method.path, nil)
			if err != nil {
				panic(err) // the address is ours
			}
			req.Header.Set("X-Goog-Api-Key", keyOf(one.Pool.Account))
			r.sim.ServeHTTP(&response{}, req)
		}
		return
	}
}
