package quota

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// A budget is a pool of the upstream [book.Budgets], whose units are millionths. A call of
// several budgets takes its bill from all of them in one reservation, before its own pools are
// asked: these may lie on another server, where no transaction holds both. If the pools refuse,
// the bill is released. If the process dies between, it stays charged. So a budget is never
// passed.

// bill is what a call has taken from its budgets.
type bill struct {
	token   Token
	units   int64
	budgets []Pool // without keys
}

// spends reports whether the calls of an upstream spend budgets.
func (p *prices) spends(c *Call) bool {
	u := p.book.Upstreams[cmp.Or(c.Upstream, p.only)]
	return c.Family == "" && u != nil && len(u.Budgets) > 0
}

// billed returns the bill of a call on each of its budgets.
func (p *prices) billed(c *Call) ([]Charge, error) {
	u := p.book.Upstreams[cmp.Or(c.Upstream, p.only)]
	units, known := c.Estimate[book.Money]
	if c.Charges != nil {
		units, known = c.Charges[book.Money]
	}
	if !known && c.Charges == nil {
		m := u.Methods[c.Method]
		for _, one := range u.Default {
			if one.Name == c.Method {
				m = one
			}
		}
		if m != nil && m.Bill != nil {
			units, known = m.Bill.Known, true
		}
	}
	switch {
	case !known && u.Mode == book.Observe:
		return nil, nil
	case !known:
		hint := "it has no bill, and budget " + u.Budgets[0].Name + " needs one; add bill: 0 USD under the method in costs.yaml if it is free"
		if c.Charges != nil {
			hint = "its charges have no " + book.Money + ", and budget " + u.Budgets[0].Name + " needs it; add the millionths that the call costs"
		}
		return nil, &UnpricedError{Upstream: u.Name, Method: c.Method, Hint: hint}
	case units < 0 || units > window.MaxUnits:
		return nil, BadInput("%s: a bill must be 0 to %d millionths of %s, not %d", u.Name, window.MaxUnits, book.Money, units)
	}
	of := accountKey{book.Budgets, DefaultAccount, ""}
	charges := make([]Charge, len(u.Budgets))
	for i, budget := range u.Budgets {
		k := p.accounts[of][budget.Name]
		if charges[i] = k.any; k.pool != nil {
			key := cmp.Or(c.Keys[book.BudgetKey(budget.Name)], budget.DefaultKey(c.Method, c.Job))
			if key == "" {
				return nil, BadInput("budget %s is for each key, and the call names none; set Keys[%q] of the call, or a default in the by of the budget", budget.Name, book.BudgetKey(budget.Name))
			}
			charges[i] = k.charge(pageKey(key))
		}
		charges[i].Units = units
		if u.Mode == book.Observe {
			charges[i].Windows = slices.Clone(charges[i].Windows)
			for j := range charges[i].Windows {
				w := &charges[i].Windows[j]
				w.Limit = w.Spec.MaxLimit()
			}
		}
	}
	return charges, nil
}

// billed returns the bill of a call on each of its budgets, with the limits that were set at run time.
func (l *Ledger) billed(ctx context.Context, p *prices, c *Call) (charges []Charge, changed []adopted, err error) {
	charges, err = p.billed(c)
	if err == nil && !p.observes(cmp.Or(c.Upstream, p.only)) {
		charges, changed, err = l.adoptLimits(ctx, p, charges, "", noProbes)
	}
	if err == nil && changed == nil { // else the store says what is impossible, and the limit when it ends
		err = p.possible(charges, "")
	}
	return charges, changed, err
}

// bill takes the bill of a call from its budgets. It returns nil if there is none.
func (l *Ledger) bill(ctx context.Context, p *prices, c *Call) (*bill, error) {
	charges, changed, err := l.billed(ctx, p, c)
	if err != nil || charges == nil {
		return nil, err
	}
	if gone := tooLate(ctx, "reserve "+charges[0].Pool.String()); gone != nil {
		return nil, gone
	}
	r := Request{ID: c.ID, Fresh: c.ID == "", Charges: charges, Labels: c.labels()}
	if r.Fresh {
		r.ID = l.ids.next()
	}
	r.Labels.Method = billLabel(cmp.Or(c.Upstream, p.only), c.Method, c.Model)
	var v Verdict
	charges, err = p.stepsOf(c, charges).climb(ctx, l, c, func(charges []Charge) (refused Pool, err error) {
		r.Charges = charges
		if v, err = l.store.Reserve(ctx, r); err != nil || v.Allowed || v.Blocked {
			return Pool{}, err
		}
		return v.Pool, nil
	})
	if err != nil {
		return nil, l.storeError(ctx, "reserve "+r.Charges[0].Pool.String(), err)
	}
	if !v.Allowed {
		if v.Blocked {
			v.attribute()
		}
		l.notForever(&v, changed)
		return nil, refusal(c, v)
	}
	b := &bill{token: v.Token(), units: charges[0].Units}
	for i := range charges {
		pool := charges[i].Pool
		pool.Key = ""
		b.budgets = append(b.budgets, pool)
	}
	return b, nil
}

// steps are the steps of its budgets that a call has passed. A call asks first for what is below the next
// step of each budget. If that is refused, it passes the step, and asks for more. So a step is as exact as the
// budget, and costs one more request of the store for each call that passes it.
type steps struct {
	prices *prices
	full   []Charge // of the budgets, with all of their limits
	passed []int    // by budget: how many; nil if none has steps
}

func (p *prices) stepsOf(c *Call, full []Charge) *steps {
	s := &steps{prices: p, full: full}
	if !p.observes(cmp.Or(c.Upstream, p.only)) && slices.ContainsFunc(full, func(c Charge) bool { return s.of(c.Pool) != nil }) {
		s.passed = make([]int, len(full))
	}
	return s
}

func (s *steps) of(budget Pool) []book.Step {
	return s.prices.book.Upstreams[book.Budgets].Pools[budget.Name].Then
}

// stepOf says what the last step of a budget that calls pass now does to them, or "".
func (p *prices) stepOf(u *Usage) (does string) {
	steps := p.book.Upstreams[u.Pool.Upstream].Pools[u.Pool.Name].Then
	for i := range steps {
		if step := &steps[i]; !step.Tells() && slices.ContainsFunc(u.Allowances, func(w WindowUsage) bool { return w.Used >= step.Below(w.Limit) }) {
			does = step.String()
		}
	}
	return does
}

// climb asks for a bill, and passes a step after each refusal for which there is one. Ask returns the pool that
// has refused. Climb returns what was asked for last, and the call gets the class of its steps.
func (s *steps) climb(ctx context.Context, l *Ledger, c *Call, ask func([]Charge) (refused Pool, err error)) ([]Charge, error) {
	if s.passed == nil {
		_, err := ask(s.full)
		return s.full, err
	}
	for tries := 0; ; tries++ {
		charges, class, err := s.charges(ctx, l)
		if err != nil {
			return s.full, err
		}
		refused, err := ask(charges)
		if i := slices.IndexFunc(s.full, func(c Charge) bool { return c.Pool == refused }); i >= 0 && s.passed[i] < len(s.of(refused)) {
			s.passed[i]++
			continue
		}
		if errors.Is(err, ErrOtherCharges) && tries < mostSteps && s.turn() { // the ID was granted on other steps
			continue
		}
		c.Class = cmp.Or(class, c.Class)
		return charges, err
	}
}

// mostSteps bounds how often an ID is looked for on other steps.
const mostSteps = 100

// turn goes to steps that were not tried, as the wheels of a counter do, or reports false after the last ones.
func (s *steps) turn() bool {
	for i := range s.passed {
		if s.passed[i] < len(s.of(s.full[i].Pool)) {
			s.passed[i]++
			return true
		}
		s.passed[i] = 0
	}
	return false
}

// charges returns what the call asks for on its steps, and the class that they give it.
func (s *steps) charges(ctx context.Context, l *Ledger) (all []Charge, class string, err error) {
	all = slices.Clone(s.full)
	var slow []Charge
	for i := range all {
		steps := s.of(all[i].Pool)
		for _, step := range steps[:s.passed[i]] {
			class = cmp.Or(step.Class, class)
			if step.Slow != nil {
				slow = append(slow, s.slow(&step, &all[i]))
			}
		}
		if s.passed[i] < len(steps) {
			all[i].Windows = slices.Clone(all[i].Windows)
			for j := range all[i].Windows {
				w := &all[i].Windows[j]
				w.Limit = steps[s.passed[i]].Below(w.Limit)
			}
		}
	}
	slow, _, err = l.adoptLimits(ctx, s.prices, slow, "", noProbes)
	for _, c := range slow {
		c.Units = min(c.Units, c.Windows[0].Limit)
		all = append(all, c)
	}
	return all, class, err
}

// slow returns the charge of the rate of a step, beside that of its budget.
func (s *steps) slow(step *book.Step, budget *Charge) Charge {
	k := s.prices.accounts[accountKey{book.Budgets, DefaultAccount, ""}][step.Slow.Name]
	c := k.any
	if k.pool != nil {
		c = k.charge(budget.Pool.Key)
	}
	c.Units = budget.Units
	return c
}

// billLabel returns the label of the method in the spend of a budget, which is that of several upstreams and
// models. [splitBill] splits it.
func billLabel(upstream, method, model string) string {
	text := upstream + "/" + method
	if model != "" {
		text += " " + model
	}
	return text[:min(len(text), maxLabel)]
}

// splitBill gives the spend of budgets its labels. Names of methods have no spaces.
func splitBill(all []Spent) {
	for i := range all {
		if s := &all[i]; s.Pool.IsMoney() {
			s.Labels.Method, s.Model, _ = strings.Cut(s.Labels.Method, " ")
		}
	}
}

// join gives a reservation the bill that was taken for it. The bill of a call that is not granted
// is released.
func (b *bill) join(ctx context.Context, l *Ledger, r *Reservation, err error) (*Reservation, error) {
	if err != nil {
		if _, failed := l.settle(ctx, b.token, nil); failed != nil {
			l.tell(ctx, Event{Kind: EventFailed, Pool: b.budgets[0], Err: failed}) // it stays charged
		}
		return nil, err
	}
	r.bill = b
	now := SystemClock{}.Now()
	l.keep(b.token, &slot{every: renewal, taken: l.clock.Now(), due: now.Add(renewal), held: 1, estimates: b.budgets})
	runtime.AddCleanup(b, l.slots.abandon, b.token)
	return r, nil
}

// text is a bill in the text of a token: that of its own token, and then its budgets.
func (b *bill) text() string {
	all := []string{b.token.String()}
	for _, pool := range b.budgets {
		all = append(all, pool.Name)
	}
	return strings.Join(all, " ")
}

// readBill reads what text wrote.
func readBill(text string) (*bill, error) {
	first, names, _ := strings.Cut(text, " ")
	t, err := ParseToken(first)
	if err != nil || t.Upstream != book.Budgets || t.bill != "" || names == "" {
		return nil, BadInput("token: its bill was not made by this ledger")
	}
	b := &bill{token: t}
	for name := range strings.SplitSeq(names, " ") {
		b.budgets = append(b.budgets, Pool{Upstream: t.Upstream, Account: t.Account, Name: name})
	}
	return b, nil
}

// settle corrects a bill to what the units of a call say. If they do not name it, what was
// reserved stands. Nil releases it.
func (b *bill) settle(ctx context.Context, l *Ledger, units Units, bounds *costs) error {
	t := b.token
	t.costs = bounds
	if units == nil {
		_, err := l.settle(ctx, t, nil)
		return err
	}
	n, named := units[book.Money]
	if !named {
		l.slots.removeIf(b.token, false)
		return nil
	}
	each := make(Units, len(b.budgets))
	pools := l.current().book.Upstreams[book.Budgets]
	for _, pool := range b.budgets {
		each[pool.Name] = n
		if pools != nil && pools.Pools[pool.Name] != nil && pools.Pools[pool.Name].Step {
			each[pool.Name] = min(n, pools.Pools[pool.Name].Windows[0].Quota)
		}
	}
	_, err := l.settle(ctx, t, each)
	return err
}

// withoutMoney returns the units of pools alone.
func (units Units) withoutMoney() Units {
	if _, has := units[book.Money]; !has {
		return units
	}
	pools := make(Units, len(units)-1)
	for pool, n := range units {
		if pool != book.Money {
			pools[pool] = n
		}
	}
	return pools
}

// Bill returns what the call has taken from its budgets, in millionths of [book.Money], and
// false if its upstream has none. Settle it with the pools, under the name of the money; if
// Settle does not name it, it stands.
func (r *Reservation) Bill() (millionths int64, has bool) {
	if r == nil || r.bill == nil {
		return 0, false
	}
	return r.bill.units, true
}

// settleAll settles the pools of a reservation, and then its bill, if it has one. A token that
// does not settle the pools settles no bill. After an error, both may be repeated.
func (b *bill) settleAll(ctx context.Context, l *Ledger, units Units, bounds *costs, pools func(Units) (Settlement, error)) (Settlement, error) {
	if n := units[book.Money]; n < 0 || n > window.MaxUnits {
		return Settlement{}, BadInput("settle: units of %s must be 0 to %d, not %d", book.Money, window.MaxUnits, n)
	}
	s, err := pools(units.withoutMoney())
	if err == nil && b != nil {
		err = b.settle(ctx, l, units, bounds)
	}
	return s, err
}
