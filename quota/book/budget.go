package book

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

const (
	// Budgets is the name of the upstream whose pools are the budgets of a book. Nothing calls it.
	Budgets = "budgets"
	// Money names the currency of all budgets. Their units are whole millionths of it.
	Money = "USD"
	// Millionths are the units of one of it.
	Millionths = 1_000_000
)

// ParseMoney reads an amount, such as "12.50 USD", as whole millionths.
func ParseMoney(text string) (int64, error) {
	number, is := strings.CutSuffix(text, " "+Money)
	whole, part, point := strings.Cut(number, ".")
	n, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	switch {
	case !is, whole == "", point && part == "", strings.Trim(whole+part, digits) != "", len(whole) > 1 && whole[0] == '0':
		return 0, fmt.Errorf("is no amount; write it as 12.50 %s", Money)
	case len(part) > 6:
		return 0, fmt.Errorf("has more than 6 decimals; the ledger counts whole millionths")
	case err != nil || n > window.MaxUnits:
		return 0, fmt.Errorf("is above %s", FormatMoney(window.MaxUnits))
	}
	return n, nil
}

// FormatMoney writes millionths as an amount, with two decimals or as many as it needs.
func FormatMoney(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	part := fmt.Sprintf("%06d", n%Millionths)
	part = part[:2] + strings.TrimRight(part[2:], "0")
	return sign + strconv.FormatInt(n/Millionths, 10) + "." + part + " " + Money
}

func badAmount(text string) string {
	if _, err := ParseMoney(text); err != nil {
		return err.Error()
	}
	return ""
}

// amount is the value of an amount that badAmount has checked.
func amount(text string) int64 {
	n, _ := ParseMoney(text)
	return n
}

// Metered returns the names of the upstreams that are called, sorted: all but [Budgets].
func (b *Book) Metered() []string {
	if b == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.Upstreams)), func(name string) bool { return name == Budgets })
}

// Step is what becomes of the calls of a budget once a part of it is spent.
type Step struct {
	At    int64  // percent
	Slow  *Pool  // a rate that calls take their bill from, too; or nil
	Class string // takes the place of theirs; or ""
}

// Below returns the limit in force before the step, of the limit of a window.
func (s *Step) Below(limit int64) int64 { return limit/100*s.At + limit%100*s.At/100 }

// Tells reports whether the step does nothing to calls: people are told of it, as of each step.
func (s *Step) Tells() bool { return s.Slow == nil && s.Class == "" }

// String says in words what the step does.
func (s *Step) String() string { return s.Words(0) }

// Words says what the step does, with another limit of its rate unless that is zero.
func (s *Step) Words(limit int64) string {
	var all []string
	if s.Slow != nil {
		windows := slices.Clone(s.Slow.Windows)
		windows[0].Quota = cmp.Or(limit, windows[0].Quota)
		all = append(all, "calls spend at most "+windowWords(windows, true))
	}
	if s.Class != "" {
		all = append(all, "calls have the class "+s.Class)
	}
	return fmt.Sprintf("from %d%% on, ", s.At) + cmp.Or(strings.Join(all, ", and "), "people are told")
}

// StepsOf returns the steps of a pool that is a budget, and whether it is the rate of a step.
func (b *Book) StepsOf(upstream, pool string) (steps []Step, rate bool) {
	if b == nil || upstream != Budgets || b.Upstreams[Budgets] == nil || b.Upstreams[Budgets].Pools[pool] == nil {
		return nil, false
	}
	p := b.Upstreams[Budgets].Pools[pool]
	return p.Then, p.StepOf != ""
}

// budgets makes the budgets of a book: an upstream whose pools they are.
func (r *reader) budgets(b *Book, d *keys.Book) {
	if u := d.Upstreams[Budgets]; u != nil {
		r.fault(r.found[u].At, "the name %q stands for the budgets of a book; give the upstream another one", Budgets)
		return
	}
	names := slices.Sorted(maps.Keys(d.Budgets))
	if len(names) == 0 {
		return
	}
	all := &Upstream{Name: Budgets, Accounts: []string{DefaultAccount}, Pools: map[string]*Pool{}}
	for _, name := range names {
		p := r.budget(name, d.Budgets[name], d.Upstreams)
		if p == nil {
			continue
		}
		all.Pools[name] = p
		for _, step := range p.Then {
			if step.Slow == nil {
				continue
			}
			if d.Budgets[step.Slow.Name] != nil {
				r.fault(r.place(&d.Budgets[name].Then), "budget %q needs the name %s for its step; give the other budget another name", name, step.Slow.Name)
			}
			all.Pools[step.Slow.Name] = step.Slow
		}
		for _, of := range d.Budgets[name].Of {
			if u := b.Upstreams[of]; u != nil {
				u.Budgets = append(u.Budgets, p)
			}
		}
	}
	if len(all.Pools) > MaxCharges {
		r.fault(r.place(&d.Budgets), "the budgets, and those of their steps that have slow, are %d; at most %d are allowed", len(all.Pools), MaxCharges)
	}
	b.Upstreams[Budgets] = all
}

// BudgetsOf returns the budgets that a call spends. One with quota none is spent by the calls of its keys alone.
func (u *Upstream) BudgetsOf(keys map[string]string, method, job string) []*Pool {
	spares := func(p *Pool) bool {
		return p.OnlyKeys && p.Keys[cmp.Or(keys[BudgetKey(p.Name)], p.DefaultKey(method, job))] == nil
	}
	if !slices.ContainsFunc(u.Budgets, spares) {
		return u.Budgets
	}
	return slices.DeleteFunc(slices.Clone(u.Budgets), spares)
}

// Spares reports whether no budget is spent by the calls of a method that a job makes, whatever is in them: each has
// quota none, and goes by the caller or the method alone.
func (u *Upstream) Spares(method, job string) bool {
	for _, p := range u.Budgets {
		inside := func(s Source) bool { return !s.Call && !s.Caller }
		if !p.OnlyKeys || slices.ContainsFunc(p.By, inside) || p.Keys[p.DefaultKey(method, job)] != nil {
			return false
		}
	}
	return len(u.Budgets) > 0
}

// Bills reports whether a call of the upstream may cost money.
func (u *Upstream) Bills() bool {
	if u.Prices != nil {
		return true
	}
	for _, methods := range [...]map[string]*Method{u.Methods, u.Default} {
		for _, m := range methods {
			if m.Bill != nil && (m.Bill.Known > 0 || m.Bill.Prices != nil) {
				return true
			}
		}
	}
	return false
}

// With returns the book with another budget.
func (b *Book) With(name string, budget *keys.Budget) (*Book, error) {
	if b == nil || b.Revision == 0 {
		return nil, BadInput("add a budget: the price book is missing; it is made by book.Parse")
	}
	d := b.Keys()
	if d.Budgets == nil {
		d.Budgets = map[string]*keys.Budget{}
	}
	d.Budgets[name] = budget
	made, err := Make(d, nil)
	if err == nil {
		made.extends, made.base = b.extends, b.base
	}
	return made, err
}

// BudgetKey is the name under which a call has its key of a budget, beside those of pools.
func BudgetKey(budget string) string { return Budgets + "/" + budget }

func (r *reader) budget(name string, d *keys.Budget, upstreams map[string]*keys.Upstream) *Pool {
	if !r.readable(d) {
		return nil
	}
	label := fmt.Sprintf("budget %q", name)
	for i := range d.Of {
		if of := d.Of[i]; upstreams[of] == nil {
			known := slices.Sorted(maps.Keys(upstreams))
			r.fault(r.place(&d.Of[i]), "%s is of upstream %q, which does not exist%s", label, of, orMean(of, known, "the book has "+cmp.Or(list(known, "and"), "none")))
		} else if slices.Contains(d.Of[:i], of) {
			r.fault(r.place(&d.Of[i]), "%s names upstream %q twice; keep one", label, of)
		}
	}
	specs, ok := r.windows(d.Windows, label)
	if !ok || !r.sound(d) {
		return nil
	}
	quota, only := amount(d.Quota), d.Quota == "none"
	switch {
	case only && (len(d.By) == 0 || len(d.Keys) == 0):
		r.fault(r.place(&d.Quota), "%s has no quota, so it needs by and keys, whose calls alone spend it, as in by: {call: caller}, keys: {etl: 5 USD}", label)
		return nil
	case only:
		quota = window.MaxUnits
	case quota == 0:
		r.fault(r.place(&d.Quota), "the quota of %s is nothing; write an amount above 0, or remove the budget", label)
		return nil
	}
	windows, ok := r.limits(specs, d.Windows, quota, 0, label, &d.Quota)
	if !ok {
		return nil
	}
	p := &Pool{Name: name, Windows: windows, SettleFactor: SettleFactor, Accounts: map[string][]Window{}, Money: true, OnlyKeys: only}
	keyed := r.keyed(p, d, d.By, d.MaxKeys, label, "by: {header: X-User}")
	p.Then = r.steps(p, d, label, upstreams)
	if !keyed {
		return p
	}
	for _, key := range r.names(&d.Keys) {
		if w, ok := r.limits(specs, d.Windows, amount(d.Keys[key]), 0, fmt.Sprintf("key %q of %s", key, label), &d.Keys); ok {
			p.Keys[key] = w
		}
	}
	return p
}

// steps makes the steps of a budget.
func (r *reader) steps(p *Pool, d *keys.Budget, label string, upstreams map[string]*keys.Upstream) (all []Step) {
	for i := range d.Then {
		s := &d.Then[i]
		if !r.sound(s) {
			continue
		}
		step := Step{At: percent(s.At), Class: s.Class}
		if step.At == 0 || len(all) > 0 && step.At <= all[len(all)-1].At {
			r.fault(r.place(&s.At), "the steps of %s must rise, from 1%% to 99%%, and %s does not; write them in order", label, s.At)
		}
		for _, of := range d.Of {
			if u := upstreams[of]; s.Class != "" && u != nil && u.Classes[s.Class] == nil {
				r.fault(r.place(&s.Class), "class %q of %s does not exist in upstream %q%s", s.Class, label, of, orMean(s.Class, slices.Sorted(maps.Keys(u.Classes)), "add it to the classes of the upstream"))
			}
		}
		switch {
		case (s.Slow == "") != (s.Per == ""):
			r.fault(r.blame(&s.Slow, &s.Per), "a step of %s needs both slow and per, as in {at: 80%%, slow: 1 USD, per: 1h}", label)
		case s.Slow != "" && amount(s.Slow) == 0:
			r.fault(r.place(&s.Slow), "slow of %s is nothing; write an amount above 0", label)
		case s.Slow != "":
			windows := []keys.Window{{Per: s.Per}}
			if _, period := parts(s.Per); period != "" { // in the zone of the budget
				for _, w := range d.Windows {
					windows[0].Zone = cmp.Or(windows[0].Zone, w.Zone)
				}
			}
			spec, err := specOf(&windows[0])
			if err != nil {
				r.fault(r.place(&s.Per), "%s", err.Error())
				continue
			}
			name := fmt.Sprintf("%s-from-%d", p.Name, step.At)
			slow := *p
			slow.Name, slow.Keys, slow.StepOf = name, nil, p.Name
			if p.By != nil {
				slow.Keys = map[string][]Window{}
			}
			var ok bool
			if slow.Windows, ok = r.limits([]Window{{Spec: spec}}, windows, amount(s.Slow), 0, "slow of "+label, &s.Slow); ok {
				step.Slow = &slow
			}
		}
		all = append(all, step)
	}
	return all
}
