package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/fair"
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
	budgets []Pool      // without keys
	charges []Charge    // of the budgets and of the rates of their steps, or nil for the bill of a token
	alone   atomic.Bool // it is not settled, and the pools of its call are
}

// spends reports whether the calls of an upstream spend budgets.
func (p *prices) spends(c *Call) bool {
	return c.Family == "" && len(p.budgetsOf(c)) > 0
}

// billed returns the bill of a call on each of its budgets, and then on the rates of their steps.
func (p *prices) billed(c *Call) ([]Charge, error) {
	u, budgets := p.book.Upstreams[cmp.Or(c.Upstream, p.only)], p.budgetsOf(c)
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
		hint := "it has no bill, and budget " + budgets[0].Name + " needs one; add bill: 0 USD under the method in costs.yaml if it is free, or the most that a call costs, as in bill: 5 USD"
		if c.Charges != nil {
			hint = "its charges have no " + book.Money + ", and budget " + budgets[0].Name + " needs it; add the millionths that the call costs"
		}
		return nil, &UnpricedError{Upstream: u.Name, Method: c.Method, Hint: hint}
	case units < 0 || units > window.MaxUnits:
		return nil, BadInput("%s: a bill must be 0 to %d millionths of %s, not %d", u.Name, window.MaxUnits, book.Money, units)
	}
	of := accountKey{book.Budgets, DefaultAccount, ""}
	charges := make([]Charge, len(budgets))
	for i, budget := range budgets {
		k := p.accounts[of][budget.Name]
		if charges[i] = k.any; k.pool != nil {
			key := cmp.Or(c.Keys[book.BudgetKey(budget.Name)], budget.DefaultKey(c.Method, c.Job))
			if key == "" {
				return nil, BadInput("budget %s is for each key, and the call names none; set Keys[%q] of the call, or a default in the by of the budget", budget.Name, book.BudgetKey(budget.Name))
			}
			charges[i] = k.charge(pageKey(key))
		}
		charges[i].Units = units
	}
	for i, budget := range budgets {
		for _, step := range budget.Then {
			if step.Slow != nil {
				rate := p.accounts[of][step.Slow.Name]
				charge := rate.any
				if rate.pool != nil {
					charge = rate.charge(charges[i].Pool.Key)
				}
				charge.Units = units
				charges = append(charges, charge)
			}
		}
	}
	if u.Mode == book.Observe {
		for i := range charges {
			charges[i].unlimited()
		}
	}
	return charges, nil
}

// unlimited takes the limits from a charge.
func (c *Charge) unlimited() {
	c.Windows = slices.Clone(c.Windows)
	for i := range c.Windows {
		c.Windows[i].Limit = c.Windows[i].Spec.MaxLimit()
	}
}

// billed returns the bill of a call on each of its budgets, with the limits that were set at run time.
func (l *Ledger) billed(ctx context.Context, p *prices, c *Call) (charges []Charge, changed []adopted, err error) {
	charges, err = p.billed(c)
	if err == nil && !p.observes(cmp.Or(c.Upstream, p.only)) {
		charges, changed, err = l.adoptLimits(ctx, p, charges, "", noProbes)
	}
	if err == nil && changed == nil { // else the store says what is impossible, and the limit when it ends
		err = p.possible(charges[:min(len(charges), len(p.budgetsOf(c)))], "")
	}
	return charges, changed, err
}

func (p *prices) budgetsOf(c *Call) []*book.Pool {
	if u := p.book.Upstreams[cmp.Or(c.Upstream, p.only)]; u != nil {
		return u.BudgetsOf(c.Keys, c.Method, c.Job)
	}
	return nil
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
	method := cmp.Or(c.Upstream, p.only) + "/" + c.Method
	room := min(maxLabel/2, maxLabel-len(method)-len(" = ")-len(c.Model))
	keys := keysOf(charges[:len(p.budgetsOf(c))], room)
	if r.Labels.Method = billLabel(method, keys, c.Model); keys != "" && !l.keysTold.tells(r.Labels, l.clock.Now()) {
		r.Labels.Method = billLabel(method, Others, c.Model)
	}
	t := c.billTurn
	if t == nil && l.turns.warm.Load() > 0 {
		t = l.billTurn(p, c, false)
	}
	if t != nil {
		before := l.takesTurn(ctx, r.ID, charges, t)
		if before != nil && (r.Fresh || t.ask.Waits || !l.repeats(ctx, c, r.ID, charges, before)) {
			return nil, refusal(c, *before)
		}
	}
	var v Verdict
	err = p.stepsOf(c, charges).climb(c, func(charges []Charge) (refused Pool, err error) {
		r.Charges, r.Labels.Class = charges, c.Class
		if v, err = l.store.Reserve(ctx, r); err != nil || v.Allowed || v.Blocked {
			return Pool{}, err
		}
		return v.Pool, nil
	})
	if err != nil {
		return nil, l.storeError(ctx, "reserve "+charges[0].Pool.String(), err)
	}
	if t != nil {
		l.hadTurn(t, &v, charges)
		t.ask.Waits = t.ask.Stays && t.refused
	}
	if !v.Allowed {
		if v.Blocked {
			v.attribute()
		}
		l.notForever(&v, changed)
		return nil, p.slowed(refusal(c, v))
	}
	b := &bill{token: v.Token(), units: charges[0].Units, charges: charges}
	for i := range charges {
		pool := charges[i].Pool
		pool.Key = ""
		b.budgets = append(b.budgets, pool)
	}
	return b, nil
}

// billTurn returns the turn of a call among those that spend budgets; nil if it has none.
func (l *Ledger) billTurn(p *prices, c *Call, stays bool) *turn {
	if !l.turns.can() || !p.spends(c) || l.observes(c) {
		return nil
	}
	return &turn{ask: fair.Ask{Ticket: fair.Ticket{Flow: l.flow(c)}, Stays: stays}}
}

// steps are the steps of its budgets that a call has passed. A call asks first for what is below the next
// step of each budget. If that is refused, it passes the step, and asks again with the other limits. So a step
// is as exact as the budget. The rates of all steps are charged from the start, so that the charges of a call, and
// with them its ID and its token, do not depend on its steps. Their limits hold once their step is passed.
type steps struct {
	budgets []*book.Pool
	charges []Charge // of the budgets, and then of the rates, with all of their limits
	passed  []int    // by budget: how many; nil if no step does anything
}

func (p *prices) stepsOf(c *Call, charges []Charge) *steps {
	s := &steps{budgets: p.budgetsOf(c), charges: charges}
	does := func(b *book.Pool) bool {
		return slices.ContainsFunc(b.Then, func(s book.Step) bool { return !s.Tells() })
	}
	if !p.observes(cmp.Or(c.Upstream, p.only)) && slices.ContainsFunc(s.budgets, does) {
		s.passed = make([]int, len(s.budgets))
	}
	return s
}

// climb asks for a bill, and passes a step after each refusal for which there is one. Ask returns the pool that
// has refused. The call has the class of the last step that it has passed.
func (s *steps) climb(c *Call, ask func([]Charge) (refused Pool, err error)) error {
	if s.passed == nil {
		_, err := ask(s.charges)
		return err
	}
	for {
		s.skip()
		charges, class, of := s.limited()
		if class != "" {
			c.Class, c.stepOf = class, of
		}
		refused, err := ask(charges)
		i := slices.IndexFunc(s.charges[:len(s.budgets)], func(c Charge) bool { return c.Pool == refused })
		if err != nil || i < 0 || s.passed[i] == len(s.budgets[i].Then) {
			return err
		}
		s.passed[i]++
	}
}

// skip passes steps that only tell.
func (s *steps) skip() {
	for i, b := range s.budgets {
		for s.passed[i] < len(b.Then) && b.Then[s.passed[i]].Tells() {
			s.passed[i]++
		}
	}
}

// limited returns the charges with the limits that hold on the steps that were passed, and the class that one of the
// budgets gives.
func (s *steps) limited() (all []Charge, class, of string) {
	all = slices.Clone(s.charges)
	rate := len(s.budgets)
	for i, b := range s.budgets {
		for k := range b.Then {
			step, passed := &b.Then[k], k < s.passed[i]
			if passed && step.Class != "" {
				class, of = step.Class, b.Name
			}
			if step.Slow == nil {
				continue
			}
			c := &all[rate]
			rate++
			if !passed {
				c.unlimited()
			} else if c.Units > c.Windows[0].Limit { // it is sent when nothing else was
				c.Windows = slices.Clone(c.Windows)
				c.Windows[0].Limit = c.Units
			}
		}
		if s.passed[i] < len(b.Then) {
			all[i].Windows = slices.Clone(all[i].Windows)
			for j := range all[i].Windows {
				w := &all[i].Windows[j]
				w.Limit = b.Then[s.passed[i]].Below(w.Limit)
			}
		}
	}
	return all, class, of
}

// slowed adds to a refusal by the rate of a step which budget slows its calls down, and from where on.
func (p *prices) slowed(why error) error {
	e, is := errors.AsType[*RefusedError](why)
	if !is || e.Blocked {
		return why
	}
	pools := p.book.Upstreams[e.Pool.Upstream].Pools
	of := pools[e.Pool.Name].StepOf
	if of == "" {
		return why
	}
	for _, s := range pools[of].Then {
		if s.Slow != nil && s.Slow.Name == e.Pool.Name {
			e.Reason = fmt.Sprintf("budget %s slows calls down from %d%% on: %s", of, s.At, cmp.Or(e.Reason, e.spent()))
		}
	}
	return why
}

// stepOf says what the steps of a budget that calls pass now do to them, or "". For the rate of a step, idle says that
// calls do not pass the step, so that it bounds none of them.
func (p *prices) stepOf(u *Usage, all []Usage) (does string, idle bool) {
	pools := p.book.Upstreams[u.Pool.Upstream].Pools
	if of := pools[u.Pool.Name].StepOf; of != "" {
		i := slices.IndexFunc(all, func(b Usage) bool { return b.Pool.Name == of && b.Pool.Key == u.Pool.Key })
		k := slices.IndexFunc(pools[of].Then, func(s book.Step) bool { return s.Slow != nil && s.Slow.Name == u.Pool.Name })
		return "", i < 0 || !all[i].passes(&pools[of].Then[k])
	}
	enforced := func(o *book.Upstream) bool {
		return o.Mode != book.Observe && slices.ContainsFunc(o.Budgets, func(b *book.Pool) bool { return b.Name == u.Pool.Name })
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(p.book.Upstreams)), enforced) {
		return "", false
	}
	var said []string
	for i := range pools[u.Pool.Name].Then {
		step, limit := &pools[u.Pool.Name].Then[i], int64(0)
		if step.Tells() || !u.passes(step) {
			continue
		}
		for _, rate := range all {
			if step.Slow != nil && rate.Pool.Name == step.Slow.Name && rate.Pool.Key == u.Pool.Key {
				limit = rate.Allowances[0].Limit
			}
		}
		said = append(said, step.Words(limit))
	}
	return strings.Join(said, "; "), false
}

// passes reports whether the next call passes a step of the budget.
func (u *Usage) passes(step *book.Step) bool {
	return slices.ContainsFunc(u.Allowances, func(w WindowUsage) bool { return w.Used >= step.Below(w.Limit) })
}

// billLabel returns the label of the method in the spend of a budget, which is that of several upstreams, keys and
// models. [splitBill] splits it.
func billLabel(method, keys, model string) string {
	text := method
	if keys != "" || strings.HasPrefix(model, "=") { // else a model would pass for keys
		text += " =" + keys
	}
	if model != "" {
		text += " " + model
	}
	return strings.ToValidUTF8(text[:min(len(text), maxLabel)], "")
}

// splitBill gives the spend of budgets its labels. Names of methods and keys have no spaces.
func splitBill(all []Spent) {
	for i := range all {
		s := &all[i]
		if !s.Pool.IsMoney() {
			continue
		}
		s.Labels.Method, s.Model, _ = strings.Cut(s.Labels.Method, " ")
		if keys, of := strings.CutPrefix(s.Model, "="); of {
			keys, s.Model, _ = strings.Cut(keys, " ")
			s.Key = keyOf(keys, s.Pool.Name)
		}
	}
}

// toldKeys are the labels with keys of budgets that a process has used in an hour. The spend is exact for any number,
// but a store keeps only so many, and beyond them tells nothing apart.
type toldKeys struct {
	mu     sync.Mutex
	hour   time.Time
	labels map[Labels]bool
}

// mostTold is how many sets of labels have keys in an hour: half of those that a store keeps.
const mostTold = 1000

// tells reports whether the keys in labels are told apart from others.
func (t *toldKeys) tells(all Labels, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if hour := now.Truncate(time.Hour); t.labels == nil || hour != t.hour {
		t.hour, t.labels = hour, map[Labels]bool{}
	}
	if len(t.labels) == mostTold && !t.labels[all] {
		return false
	}
	t.labels[all] = true
	return true
}

// keysOf returns the keys of the budgets of a call, as its spend has them. They are not told apart if there is no room
// for them: a part of a key may be another key.
func keysOf(budgets []Charge, room int) string {
	if !slices.ContainsFunc(budgets, func(c Charge) bool { return c.Pool.Key != "" }) {
		return ""
	}
	all := url.Values{}
	for i := range budgets {
		if key := budgets[i].Pool.Key; key != "" {
			all.Set(budgets[i].Pool.Name, key)
		}
	}
	if text := all.Encode(); len(text) <= room {
		return text
	}
	return Others
}

// keyOf returns the key of a budget in the text of [keysOf]. That of a budget without keys is all of them.
func keyOf(text, budget string) string {
	if text == Others {
		return Others
	}
	all, _ := url.ParseQuery(text)
	if key := all.Get(budget); key != "" {
		return key
	}
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		keys = append(keys, all.Get(name))
	}
	return strings.Join(slices.Compact(keys), ", ")
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
func (b *bill) settle(ctx context.Context, l *Ledger, units Units, bounds *prices) error {
	t := b.token
	t.bounds = bounds
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
	for _, pool := range b.budgets {
		each[pool.Name] = n
	}
	_, err := l.settle(ctx, t, each)
	return err
}

// withoutMoney returns the units of pools alone.
func (units Units) withoutMoney() Units {
	if _, has := units[book.Money]; !has {
		return units
	}
	pools := maps.Clone(units)
	delete(pools, book.Money)
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

// Budgets returns the pools that have charged the bill of the call, with their keys: its budgets, and the rates that
// slow them down.
func (r *Reservation) Budgets() (all []Pool) {
	if r != nil && r.bill != nil {
		for i := range r.bill.charges {
			all = append(all, r.bill.charges[i].Pool)
		}
	}
	return all
}

// settleAll settles the pools of a reservation, and then its bill, if it has one. A token that
// does not settle the pools settles no bill. After an error, both may be repeated.
func (b *bill) settleAll(ctx context.Context, l *Ledger, units Units, bounds *prices, pools func(Units) (Settlement, error)) (Settlement, error) {
	if n := units[book.Money]; n < 0 || n > window.MaxUnits {
		return Settlement{}, BadInput("settle: units of %s must be 0 to %d, not %d", book.Money, window.MaxUnits, n)
	}
	s, err := pools(units.withoutMoney())
	if err == nil && b != nil {
		b.alone.Store(true)
		err = b.settle(ctx, l, units, bounds)
	}
	return s, err
}
