package plan

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Past is the spend before a plan, the pools that are blocked, and the limits that hold in place of
// those of the price book.
type Past struct {
	Spent  []Spent
	Blocks []Block
	Limits []quota.KeyLimit
}

// Spent is a number of units of a pool, spent at a time.
type Spent struct {
	Pool  quota.Pool
	At    time.Time
	Units int64
}

// Block is a pool that is blocked until a time.
type Block struct {
	Pool   quota.Pool
	Until  time.Time
	Reason string
}

// ReadPast reads the spend from a ledger. It charges nothing. The clock, if given, is that
// of the ledger's store. ReadPast moves it to see when units come back, and knows from that
// when they were spent. Without a clock it knows only when the next units come back, and of
// the others the hour in which they were spent.
func ReadPast(ctx context.Context, l *quota.Ledger, clock *quota.SimClock) (*Past, error) {
	now, err := l.View().Usage(ctx, "", "")
	if err != nil {
		return nil, err
	}
	past := &Past{}
	for _, u := range now {
		if u.Pool.Key != "" {
			continue
		}
		if u.Blocked.After(u.Now) {
			reason := u.Reason
			if u.BlockedBy == quota.BlockedByPerson {
				reason = quota.ByHand(reason)
			}
			past.Blocks = append(past.Blocks, Block{u.Pool, u.Blocked, reason})
		}
		for _, w := range u.Allowances {
			if w.Reported == 0 || l.Book().Upstreams[u.Pool.Upstream] == nil {
				continue
			}
			k := quota.KeyLimit{Family: quota.LimitsOfUpstream + u.Pool.Upstream, Key: u.Pool.Name, Quota: w.Reported, Until: w.ReportedUntil, By: "the plan", Reason: earlierSpend}
			if u.Pool.Account != quota.DefaultAccount {
				k.Key += "@" + u.Pool.Account
			}
			if key, err := l.Admin().WindowKey(k.Family, k.Key, w.Window); err == nil { // a budget has one for all windows
				k.Key, k.Headroom = key, &w.ReportedHeadroom
			}
			past.Limits = append(past.Limits, k)
		}
		if !slices.ContainsFunc(u.Allowances, func(w quota.WindowUsage) bool { return w.Spec.Span() >= day }) {
			continue // what was spent has soon left its windows
		}
		windows := l.Book().Upstreams[u.Pool.Upstream].Pools[u.Pool.Name].WindowsFor(u.Pool.Account)
		spent, err := slidingPast(ctx, l, clock, u, windows)
		if err != nil {
			return nil, err
		}
		past.Spent = append(past.Spent, calendarPast(spent, u, windows)...)
	}
	slices.SortStableFunc(past.Spent, func(a, b Spent) int { return a.At.Compare(b.At) })
	return past, nil
}

// slidingPast returns the spend that the longest sliding window of a pool counts.
func slidingPast(ctx context.Context, l *quota.Ledger, clock *quota.SimClock, u quota.Usage, windows []book.Window) (all []Spent, err error) {
	longest := -1
	for i, w := range windows {
		if w.Per > 0 && !w.Drains() && (longest < 0 || w.Per > windows[longest].Per) {
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
		u, err = readPool(ctx, l, u.Pool)
		clock.Set(now)
		if err != nil {
			return nil, err
		}
	}
	if used <= 0 {
		return all, nil
	}
	rest, err := hourly(ctx, l, u.Pool, now.Add(-per), now, used)
	return append(all, rest...), err
}

// hourly returns when units of a pool were spent at the latest, by its spend in the hours since a time. Units
// that no hour has are the oldest.
func hourly(ctx context.Context, l *quota.Ledger, pool quota.Pool, since, now time.Time, units int64) (all []Spent, err error) {
	spent, err := l.View().Spend(ctx, quota.SpendQuery{Upstream: pool.Upstream, Account: pool.Account, Since: since}, quota.ByHour, quota.ByAccount)
	spent = append(spent, quota.Spent{Pool: pool, Hour: since, Units: units})
	for _, s := range spent { // the newest first
		if part := min(s.Units, units); s.Pool == pool && part > 0 {
			all = append(all, Spent{pool, earlier(s.Hour.Add(time.Hour-time.Microsecond), now), part})
			units -= part
		}
	}
	return all, err
}

func sum(all []Spent, since time.Time) (units int64) {
	for _, s := range all {
		if !s.At.Before(since) {
			units += s.Units
		}
	}
	return units
}

func readPool(ctx context.Context, l *quota.Ledger, pool quota.Pool) (quota.Usage, error) {
	all, err := l.View().Usage(ctx, pool.Upstream, pool.Account)
	i := slices.IndexFunc(all, func(u quota.Usage) bool { return u.Pool == pool })
	if err != nil || i < 0 {
		return quota.Usage{}, err
	}
	return all[i], nil
}

// calendarPast adds the spend that only calendar windows count: all of a pool without a
// sliding window, and older spend of other pools.
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
			all = append(all, Spent{u.Pool, later(latest, start), rest})
		}
		latest = start.Add(-2 * max(windows[i].Lag, time.Minute)) // before this period and its lag
	}
	return all
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// spend repeats the earlier spend in the ledger of a plan and in the simulated upstream. It
// leaves the clock at the beginning of the plan.
func (s *scenario) spend(ctx context.Context, r *rig) error {
	defer r.clock.Set(s.from)
	if s.options.Past == nil {
		return nil
	}
	today := midnight(s.from, s.zone, 0)
	for _, one := range s.options.Past.Spent {
		if !slices.Contains(r.upstreams, one.Pool.Upstream) {
			continue
		}
		one.At = earlier(one.At, s.from)
		r.clock.Set(one.At)
		if _, err := r.ledger.Admin().Adjust(ctx, one.Pool, one.Units, earlierSpend); err != nil {
			return err
		}
		if !one.At.Before(today) {
			r.spendUpstream(one)
		}
	}
	r.clock.Set(s.from)
	for _, b := range s.options.Past.Blocks {
		if b.Until.After(s.from) && slices.Contains(r.upstreams, b.Pool.Upstream) {
			if err := r.ledger.Block(ctx, b.Pool, b.Until, b.Reason); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit sets the limits that hold when the plan begins. They end as they would.
func (s *scenario) limit(ctx context.Context, r *rig) error {
	if s.options.Past == nil {
		return nil
	}
	for _, k := range s.options.Past.Limits {
		if !k.Holds(s.from) || !slices.Contains(r.upstreams, strings.TrimPrefix(k.Family, quota.LimitsOfUpstream)) {
			continue
		}
		if _, err := r.ledger.Admin().SetLimit(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// earlierSpend is the reason of the adjustments that repeat earlier spend.
const earlierSpend = "spent before the plan begins"

// spendUpstream makes calls that the simulated upstream charges and then rejects as
// invalid.
func (r *rig) spendUpstream(one Spent) {
	u := r.ledger.Book().Upstreams[upstream]
	if one.Pool.Upstream != upstream {
		return
	}
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

// The input of a record.
const (
	recordedPasses = 10 // the latest passes; their median counts
	failures       = 3  // work that failed so often in a row keeps failing
)

// ReadRecords returns the length and cost of passes, and the failures of runs, the latest first.
func ReadRecords(runs []catalog.RunRecord) map[Work]Record {
	type history struct {
		passes, units []int64            // of passes, the latest last
		money         map[string][]int64 // by budget
		pages         int                // of the pass that has begun
		failed        int                // in a row
	}
	known := map[Work]*history{}
	for _, run := range slices.Backward(runs) {
		for i := range run.Work {
			w := &run.Work[i]
			h := known[Work{run.Job, w.Work}]
			if h == nil {
				h = &history{money: map[string][]int64{}}
				known[Work{run.Job, w.Work}] = h
			}
			h.pages += w.Pages
			switch w.State {
			case catalog.Done:
				if h.pages > 0 {
					h.passes, h.units = append(h.passes, int64(h.pages)), append(h.units, w.Units)
				}
				for budget, n := range w.Charges.Money() {
					h.money[budget] = append(h.money[budget], n)
				}
				h.pages, h.failed = 0, 0
			case catalog.Failed:
				h.failed++
			case catalog.Deferred, catalog.Running: // its pass continues
				if w.Error == ingest.ErrMorePages.Error() {
					h.failed = 0
				}
			}
		}
	}
	records := map[Work]Record{}
	for work, h := range known {
		r := Record{Pages: int(typical(h.passes)), Units: typical(h.units), Failing: h.failed >= failures}
		for budget, all := range h.money {
			if r.Money == nil {
				r.Money = map[string]int64{}
			}
			r.Money[budget] = typical(all)
		}
		records[work] = r
	}
	return records
}

// typical returns the median of the last numbers, or 0 if there are none.
func typical(all []int64) int64 {
	if len(all) == 0 {
		return 0
	}
	last := slices.Sorted(slices.Values(all[max(len(all)-recordedPasses, 0):]))
	return last[len(last)/2]
}
