package agents

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

type wantedCall struct {
	Upstream string            `json:"upstream,omitempty" jsonschema:"the upstream, as youtube; it may be left out if there is only one"`
	Method   string            `json:"method,omitempty" jsonschema:"the method, as videos.list: the price book has its price"`
	Units    map[string]int64  `json:"units,omitempty" jsonschema:"units by pool: an estimate, if the price of the method depends on the request, or the charge of a call without a method"`
	Keys     map[string]string `json:"keys,omitempty" jsonschema:"keys of keyed pools, by pool, as the model"`
}

func (s *session) call(w *wantedCall) (quota.Call, error) {
	c := quota.Call{Upstream: w.Upstream, Account: s.o.Account, Method: w.Method, Keys: w.Keys, Class: s.o.Class, Job: s.o.Job}
	known := s.o.Upstreams
	if len(known) == 0 {
		known = s.ledger.Book().Metered()
	}
	switch {
	case w.Method == "" && len(w.Units) == 0:
		return c, quota.BadInput("name a method, or the units by pool")
	case w.Upstream == "" && len(known) == 1:
		c.Upstream = known[0]
	case w.Upstream == "":
		return c, quota.BadInput("name the upstream: one of %s", strings.Join(known, ", "))
	}
	if w.Method == "" {
		c.Charges = w.Units
	} else {
		c.Estimate = w.Units
	}
	if err := s.may(c.Upstream); err != nil {
		return c, err
	}
	if err := checkUnits(w.Units); err != nil {
		return c, err
	}
	for name := range w.Keys {
		if s.byJob(name) {
			return c, quota.BadInput("the key of %.80q is the job of this session; leave it out", name)
		}
	}
	for _, pool := range s.fixed(&c) {
		if _, estimated := c.Estimate[pool]; estimated { // it would replace the price
			return c, quota.BadInput("the price book has the price of %s in %.80q; leave its units out", c.Method, pool)
		}
	}
	return c, nil
}

// byJob reports whether a pool is a budget whose key is the job of the session.
func (s *session) byJob(pool string) bool {
	budget, is := strings.CutPrefix(pool, book.BudgetKey(""))
	budgets := s.ledger.Book().Upstreams[book.Budgets]
	if !is || budgets == nil || budgets.Pools[budget] == nil {
		return false
	}
	return slices.ContainsFunc(budgets.Pools[budget].By, func(of book.Source) bool { return of.Caller })
}

func checkUnits(units map[string]int64) error {
	for pool, n := range units {
		if n < 0 || n > mostUnits {
			return quota.BadInput("the units of %.80q must be 0 to %d", pool, int64(mostUnits))
		}
	}
	return nil
}

// fixed returns the pools in which the price of a call does not depend on the request.
func (s *session) fixed(c *quota.Call) (pools []string) {
	u := s.ledger.Book().Upstreams[c.Upstream]
	if u == nil || u.Methods[c.Method] == nil {
		return nil
	}
	m := u.Methods[c.Method]
	for pool := range u.Pools {
		if _, charged := m.Charges[pool]; m.Prices[pool] == nil && (charged || c.Estimate[pool] != 0) {
			pools = append(pools, pool)
		}
	}
	if m.Bill != nil && m.Bill.Prices == nil && len(m.Bill.Estimate) == 0 {
		pools = append(pools, book.Money)
	}
	return pools
}

// price returns what is known of the units of a call before it is granted. Slots are no units.
func (s *session) price(c *quota.Call) quota.Units {
	all := s.charges(c)
	maps.DeleteFunc(all, func(pool string, _ int64) bool { return s.slotTTL(c, pool) > 0 })
	return all
}

// charges returns what is known of the charges of a call, with its slots.
func (s *session) charges(c *quota.Call) quota.Units {
	if c.Charges != nil {
		return maps.Clone(c.Charges)
	}
	all := quota.Units{}
	if u := s.ledger.Book().Upstreams[c.Upstream]; u != nil && u.Methods[c.Method] != nil {
		maps.Copy(all, u.Methods[c.Method].Charges)
		if bill := u.Methods[c.Method].Bill; bill != nil && len(u.Budgets) > 0 {
			all[book.Money] = bill.Known
		}
	}
	maps.Copy(all, c.Estimate)
	return all
}

func sum(units quota.Units) (n int64) {
	for pool, one := range units {
		if pool != book.Money {
			n += max(one, 0)
		}
	}
	return n
}

// freeSlots gives back the slots of a call after their ttl. An agent settles only what cost
// something else than its price, so nobody may say when the call has ended.
func (s *session) freeSlots(c *quota.Call, granted *quota.Reservation) {
	ttl := time.Duration(0)
	for pool := range s.charges(c) {
		ttl = max(ttl, s.slotTTL(c, pool))
	}
	if ttl == 0 {
		return
	}
	time.AfterFunc(ttl, func() {
		if err := granted.Done(context.Background()); err != nil {
			s.log.Warn("give back the slots of a call", "error", err)
		}
	})
}

// slotTTL returns how long a slot of a pool counts, or 0 if the pool counts units.
func (s *session) slotTTL(c *quota.Call, pool string) time.Duration {
	if u := s.ledger.Book().Upstreams[c.Upstream]; u != nil && u.Pools[pool] != nil {
		if w := u.Pools[pool].WindowsFor(s.o.Account); len(w) > 0 && w[0].InFlight() {
			return w[0].Per
		}
	}
	return 0
}

const (
	mostPlanned = 100     // kinds of calls in a plan
	mostCount   = 1 << 20 // calls of a kind
)

type wantedPlan struct {
	Calls []plannedCall `json:"calls" jsonschema:"the calls to price"`
}

// plannedCall is a call that is made several times.
type plannedCall struct {
	wantedCall
	Count int64 `json:"count,omitempty" jsonschema:"how often it is made; 1 if it is left out"`
}

// planned is the answer of the tool plan.
type planned struct {
	Fits    bool             `json:"fits" jsonschema:"whether all calls would be allowed now"`
	Message string           `json:"message"`
	Units   map[string]int64 `json:"units" jsonschema:"what the calls cost, by pool, as youtube/units"`
	Bill    int64            `json:"bill,omitempty" jsonschema:"what they cost in money, in millionths of a dollar"`
	// RetryAfter is when all of them fit, by what is spent so far.
	RetryAfter float64 `json:"retry_after,omitempty" jsonschema:"seconds after which they may fit"`
	Session    *budget `json:"session,omitempty"`
}

// plan prices calls. It takes no units.
func (s *session) plan(ctx context.Context, in wantedPlan) (planned, error) {
	if len(in.Calls) == 0 || len(in.Calls) > mostPlanned {
		return planned{}, quota.BadInput("name 1 to %d calls, not %d", mostPlanned, len(in.Calls))
	}
	sums, err := s.sums(ctx, in.Calls)
	if err != nil {
		return planned{}, err
	}
	p := planned{Fits: true, Units: map[string]int64{}}
	var cost int64
	var short []string
	for _, upstream := range slices.Sorted(maps.Keys(sums)) {
		units := sums[upstream]
		cost += sum(units)
		for name, n := range units {
			if name == book.Money {
				p.Bill += n
				continue
			}
			p.Units[quota.Pool{Upstream: upstream, Account: s.o.Account, Name: name}.String()] = n
		}
		_, err := s.ledger.Check(ctx, quota.Call{Upstream: upstream, Account: s.o.Account, Class: s.o.Class, Job: s.o.Job, Charges: units})
		if err == nil {
			continue
		}
		refused, err := s.refused(err)
		if err != nil {
			return planned{}, err
		}
		short = append(short, refused.Message)
		p.RetryAfter = max(p.RetryAfter, refused.RetryAfter)
	}
	p.Session = s.budget()
	if p.Session != nil && cost > p.Session.Left {
		short = append(short, fmt.Sprintf("the calls cost %d units, and the budget of this session has %d left", cost, p.Session.Left))
	}
	p.Fits, p.Message = len(short) == 0, "all of them fit now"
	if !p.Fits {
		p.Message = strings.Join(short, "; ")
	}
	return p, nil
}

// sums returns what calls cost together, by upstream and pool. A call that could not be
// granted by itself, such as one without a price, is an error.
func (s *session) sums(ctx context.Context, calls []plannedCall) (map[string]quota.Units, error) {
	all := map[string]quota.Units{}
	for i := range calls {
		call, err := s.call(&calls[i].wantedCall)
		if err != nil {
			return nil, err
		}
		count := cmp.Or(calls[i].Count, 1)
		if count < 0 || count > mostCount {
			return nil, quota.BadInput("count is 1 to %d, not %d", mostCount, count)
		}
		if _, err := s.ledger.Check(ctx, call); err != nil && problem.Of(s.ledger.Book(), err).Verdict == nil {
			return nil, err
		}
		if all[call.Upstream] == nil {
			all[call.Upstream] = quota.Units{}
		}
		for pool, units := range s.price(&call) {
			if units < 0 || units > 1<<32 {
				return nil, quota.BadInput("%d units of %.80q make no sense", units, pool)
			}
			if units > 0 {
				all[call.Upstream][pool] += count * units
			}
		}
	}
	maps.DeleteFunc(all, func(_ string, units quota.Units) bool { return len(units) == 0 })
	return all, nil
}
