package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// A plan runs no programs. A job of kind command spends what it may spend, or else what it
// has spent, from a pool of each upstream that it may call. Which calls its program makes is
// unknown.

// assumed is what a run of a program is taken to spend.
type assumed struct {
	units  int64 // 0: unknown, or nothing
	source string
	pools  []quota.Pool // from each of them
	keyed  []string     // upstreams whose pools count by key, all or some of them

	money map[string]int64 // of budgets, in millionths; the first upstream that has one pays it
}

// spendOf returns what a run of a job's program is taken to spend.
func (s *scenario) spendOf(j *ingest.Job, costs *quota.Book) assumed {
	a := assumed{units: j.MaxUnits, source: "its max_units"}
	for work, record := range s.options.Records {
		if work.Job == j.Name && record.Units > 0 && (j.MaxUnits == 0 || record.Units < j.MaxUnits) {
			a.units, a.source = record.Units, "what its earlier runs spent"
		}
		if work.Job == j.Name {
			a.money = record.Money // the program is all of its work
		}
	}
	for _, name := range j.MayCall(costs) {
		if pool := mainPool(costs.Upstreams[name]); pool != "" {
			a.pools = append(a.pools, quota.Pool{Upstream: name, Account: cmp.Or(j.Account, quota.DefaultAccount), Name: pool})
		} else {
			a.keyed = append(a.keyed, name)
			continue
		}
		if byKey := func(p *book.Pool) bool { return p.By != nil }; slices.ContainsFunc(slices.Collect(maps.Values(costs.Upstreams[name].Pools)), byKey) {
			a.keyed = append(a.keyed, name)
		}
	}
	return a
}

// mainPool returns the pool with the longest window: of several, the one that most methods
// charge. It returns "" if all pools have a key or count calls in flight.
func mainPool(u *book.Upstream) (main string) {
	methods := map[string]int{}
	for _, all := range []map[string]*book.Method{u.Methods, u.Default} {
		for _, m := range all {
			for pool := range m.Charges {
				methods[pool]++
			}
		}
	}
	var longest time.Duration
	for _, name := range slices.Sorted(maps.Keys(u.Pools)) {
		p, span := u.Pools[name], time.Duration(0)
		for _, w := range p.Windows {
			span = max(span, w.Length())
		}
		if p.By == nil && !p.Windows[0].InFlight() && (main == "" || cmp.Or(cmp.Compare(span, longest), methods[name]-methods[main]) > 0) {
			main, longest = name, span
		}
	}
	return main
}

// by spends the units in each pool, as windows let it: it waits as long as a call may.
func (a assumed) by(ctx context.Context, r *rig, j *ingest.Job, patience time.Duration) error {
	end := j.Deadline(r.clock.Now(), ingest.Occasion{Deferred: true})
	money := maps.Clone(a.money)
	for _, pool := range a.pools {
		part, u := a.units, r.ledger.Book().Upstreams[pool.Upstream]
		for _, w := range u.Pools[pool.Name].WindowsFor(pool.Account) {
			part = min(part, max(w.Limit(u.Classes[j.Class]), 1))
		}
		part = min(part, max(r.limit(pool, 0), 1))
		for left := a.units; left > 0; {
			call := quota.Call{Upstream: pool.Upstream, Account: pool.Account, Charges: quota.Units{pool.Name: min(part, left)}, Class: j.Class, Job: j.Name}
			if len(u.Budgets) > 0 {
				call.Keys = map[string]string{}
			}
			for _, budget := range u.Budgets {
				key := book.BudgetKey(budget.Name)
				call.Keys[key], call.Charges[book.Money] = j.Name, max(call.Charges[book.Money], money[key])
			}
			_, err := r.ledger.Reserve(ctx, call)
			if refused, is := errors.AsType[*quota.RefusedError](err); is && !refused.Blocked && refused.Remaining > 0 && refused.Pool == pool {
				call.Charges[pool.Name] = refused.Remaining
				_, err = r.ledger.Reserve(ctx, call)
			}
			refused, is := errors.AsType[*quota.RefusedError](err)
			switch {
			case err == nil:
				left -= call.Charges[pool.Name]
				for _, budget := range u.Budgets {
					delete(money, book.BudgetKey(budget.Name))
				}
				continue
			case !is || refused.RetryAfter > patience || r.clock.Now().Add(refused.RetryAfter).After(end):
				return err
			}
			if err := r.clock.Sleep(ctx, max(refused.RetryAfter, time.Millisecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

// moneyNotes says what the runs of a program's job cost, by what the last ones have spent of budgets.
func (s *scenario) moneyNotes(j *ingest.Job, costs *quota.Book, p *Plan) (notes []string) {
	each := s.spendOf(j, costs).money
	runs := int64(0)
	for at := j.Schedule().Next(p.From); !at.IsZero() && at.Before(p.Until); at = j.Schedule().Next(at) {
		runs++
	}
	for _, budget := range slices.Sorted(maps.Keys(each)) {
		text := fmt.Sprintf("job %s: its program spends about %s of %s a run, as its last runs did; that is %s in %d runs until %s",
			j.Name, book.FormatMoney(each[budget]), budget, book.FormatMoney(runs*each[budget]), runs, p.Until.Format(time.DateOnly))
		if all := costs.Upstreams[book.Budgets]; all != nil && all.Pools[strings.TrimPrefix(budget, book.BudgetKey(""))] != nil {
			for _, w := range all.Pools[strings.TrimPrefix(budget, book.BudgetKey(""))].Windows {
				text += fmt.Sprintf("\nThe budget has %s in %s", book.FormatMoney(w.Quota), w)
			}
		}
		notes = append(notes, text)
	}
	return notes
}

// programNotes adds to p what it takes for granted of programs, and what it leaves out.
func (s *scenario) programNotes(costs *quota.Book, p *Plan) {
	for _, j := range s.config.List() {
		if !j.Kind.Runs() {
			continue
		}
		p.Notes = append(p.Notes, s.moneyNotes(j, costs, p)...)
		a := s.spendOf(j, costs)
		if a.units == 0 && len(a.pools) > 0 {
			p.LeftOut = append(p.LeftOut, j.Name)
			p.Notes = append(p.Notes, fmt.Sprintf("job %s: what its program spends is unknown, so the plan leaves it out\nTo bound it, set max_units", j.Name))
			continue
		}
		var names []string
		for _, pool := range a.pools {
			names = append(names, pool.Upstream+"/"+pool.Name)
		}
		if len(names) > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("job %s: its program is taken to spend %d units of %s a run, %s", j.Name, a.units, strings.Join(names, ", and of "), a.source))
		}
		if len(a.keyed) > 0 {
			p.LeftOut = append(p.LeftOut, j.Name)
			p.Notes = append(p.Notes, fmt.Sprintf("job %s: the plan leaves out what its program spends of pools by key, such as a model, and of open calls, at %s\nA plan does not know which keys a program uses", j.Name, strings.Join(a.keyed, ", ")))
		}
	}
}
