package content

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// Plan is what the content of a method's calls decides: their prices, and the keys of the
// pools that they charge.
type Plan struct {
	Request *Sources // of all estimates and keys
	Answer  *Sources // of all actual costs
	Priced  bool     // otherwise only keys are read
	pools   []pool
	keys    []key
	weights map[*book.Source]int // by source of a price: the index of its weight in the request
	bill    *bill                // in money; nil: it is fixed, or nobody asks
}

// key is what names the key of a pool: the index of its first source.
type key struct {
	name string
	pool *book.Pool
	from int
}

// bill is what a plan knows about the price in money. By is the index of the first source that
// names the prices.
type bill struct {
	*book.Bill
	upstream         *book.Upstream
	estimate, actual [2]int
	by               int
}

// pool is what a plan knows about one pool. Its sources are indexes: of each, the first and
// the one after the last.
type pool struct {
	name             string
	price            *book.Price
	known            int64 // what the method charges if nothing is known of the call
	estimate, actual [2]int
}

// NewPlan returns the plan of a method of an upstream, or nil if nothing depends on the
// content of its calls. Those that are not billed spend no budget.
func NewPlan(u *book.Upstream, m *book.Method, billed bool) *Plan {
	p := &Plan{Priced: len(m.Prices) > 0}
	var request, answer []*book.Source
	for _, name := range slices.Sorted(maps.Keys(m.Prices)) {
		price := m.Prices[name]
		at := pool{name: name, price: price, known: m.Charges[name]}
		request, at.estimate = appended(request, price.Estimate)
		answer, at.actual = appended(answer, price.Actual)
		p.pools = append(p.pools, at)
	}
	p.weights = map[*book.Source]int{}
	for _, of := range slices.Concat(request, answer) {
		if of.Weight != nil {
			p.weights[of] = len(request)
			request = append(request, of.Weight)
		}
	}
	var budgets []*book.Pool
	if billed {
		budgets = u.Budgets
	}
	if len(budgets) > 0 && m.Bill != nil && m.Bill.Prices != nil {
		p.Priced, p.bill = true, &bill{Bill: m.Bill, upstream: u}
		request, p.bill.estimate = appended(request, m.Bill.Estimate)
		answer, p.bill.actual = appended(answer, m.Bill.Actual)
	}
	prices := len(request)
	if p.bill != nil {
		p.bill.by = prices
		request, _ = appended(request, m.Bill.Prices.By)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Charges)) {
		if of := u.Pools[name]; of != nil && of.By != nil {
			p.keys = append(p.keys, key{name, of, len(request)})
			request, _ = appended(request, of.By)
		}
	}
	for _, of := range budgets {
		if of.By != nil && (m.Bill != nil || of.OnlyKeys) { // the key says whether the call needs a bill
			p.keys = append(p.keys, key{book.BudgetKey(of.Name), of, len(request)})
			request, _ = appended(request, of.By)
		}
	}
	if len(p.pools) == 0 && len(p.keys) == 0 && p.bill == nil {
		return nil
	}
	p.Request, p.Answer = newRequest(prices, request), NewSources(answer...)
	return p
}

func appended(all []*book.Source, more []book.Source) ([]*book.Source, [2]int) {
	from := len(all)
	for i := range more {
		all = append(all, &more[i])
	}
	return all, [2]int{from, len(all)}
}

// Keys returns the keys of the keyed pools that a call charges, by pool. A pool whose key
// nothing names is left out.
func (p *Plan) Keys(r *Reading) map[string]string {
	if len(p.keys) == 0 {
		return nil
	}
	all := make(map[string]string, len(p.keys))
	for _, k := range p.keys {
		parts := r.named(k.from, len(k.pool.By))
		if text := k.pool.Key(parts); text != "" {
			all[k.name] = text
		}
	}
	return all
}

// named returns the texts of sources, "" for one that is missing.
func (r *Reading) named(from, n int) []string {
	parts := make([]string, n)
	for i := range parts {
		parts[i], _ = r.Text(from + i)
	}
	return parts
}

// Case returns the name of a call in the list of prices in money, which its request gives.
func (p *Plan) Case(r *Reading) string {
	if p.bill == nil {
		return ""
	}
	return p.bill.Prices.Name(r.named(p.bill.by, len(p.bill.Prices.By)))
}

// Rates returns the prices in money of a call of a name, at a time, and the case that fits it; nil if
// none depends on it. If the price book lacks one, it says which.
func (p *Plan) Rates(name string, now time.Time) (rates book.Case, fits, lacks string) {
	if p.bill == nil {
		return nil, "", ""
	}
	list := p.bill.Prices
	if rates, fits = list.Find(name, now); rates != nil {
		if lacks = p.bill.Lacks(rates[0].Rates); lacks != "" {
			lacks = fmt.Sprintf("%.80q has no price %q", name, lacks)
		}
	} else {
		lacks = fmt.Sprintf("%.80q has no price", name)
	}
	switch {
	case lacks == "":
		return rates, fits, ""
	case p.bill.upstream.Mode == book.Observe:
		return book.Case{{Rates: list.Dearest}}, "dearest", ""
	}
	return nil, "", lacks + fmt.Sprintf(" in money; add it to the cases of prices of %s in costs.yaml, or write default: dearest there", p.bill.upstream.Name)
}

// Learned returns what the recent calls of a method have cost a pool, to reserve it for the
// next one; false if too few are known.
type Learned func(pool string, share int) (int64, bool)

// Estimate returns what to reserve for a request, by pool, and its bill by the rates.
func (p *Plan) Estimate(r *Reading, rates book.Case, learned Learned) map[string]int64 {
	all, weights := make(map[string]int64, len(p.pools)+1), p.Weights(r)
	if p.bill != nil {
		all[book.Money] = p.bill.Known
		if values, ok := r.values(p.bill.estimate); ok {
			all[book.Money] = p.bill.Reserve(values, rates)
		}
	}
	for i := range p.pools {
		at := &p.pools[i]
		units, read := at.known, false
		if len(at.price.Estimate) > 0 {
			if n, ok := r.sum(at.estimate, weights); ok {
				units, read = n, true
			}
		}
		if learn := at.price.Learn; learn != nil {
			n, ok := learned(at.name, learn.Percent)
			if !ok {
				n, ok = learn.First, learn.First > 0
			}
			if ok && (!read || n < units) {
				units = n
			}
		}
		all[at.name] = units
	}
	return all
}

// Weights are what a request multiplies the sources of prices by.
type Weights map[*book.Source]int64

// Weights returns those of a request.
func (p *Plan) Weights(r *Reading) Weights {
	if len(p.weights) == 0 {
		return nil
	}
	all := make(Weights, len(p.weights))
	for of, i := range p.weights {
		all[of], _ = r.Units(i)
	}
	return all
}

func (r *Reading) sum(of [2]int, weights Weights) (sum int64, ok bool) {
	for i := of[0]; i < of[1]; i++ {
		n, ok := r.Units(i)
		if !ok {
			return 0, false
		}
		if weight, has := weights[r.of.all[i]]; has {
			if n = scale(n, 1, weight); weight == 0 {
				n = 0
			}
		}
		sum = add(sum, n)
	}
	return sum, true
}

func (r *Reading) values(of [2]int) ([]int64, bool) {
	all := make([]int64, of[1]-of[0])
	for i := range all {
		var ok bool
		if all[i], ok = r.Units(of[0] + i); !ok {
			return nil, false
		}
	}
	return all, true
}

// Actual sets in costs what a call has cost by its answer. A pool whose cost the answer
// does not tell keeps what it has. Each is called for a cost that the answer told; it may
// be nil.
func (p *Plan) Actual(r *Reading, rates book.Case, weights Weights, costs map[string]int64, each func(pool string, units int64, learn bool)) {
	if p.bill != nil && p.bill.Actual != nil && !r.lost(p.bill.actual) {
		if values, ok := r.values(p.bill.actual); ok {
			costs[book.Money] = p.bill.Settle(values, rates)
		}
	}
	for i := range p.pools {
		at := &p.pools[i]
		if at.price.Actual == nil || r.lost(at.actual) {
			continue
		}
		n, ok := r.sum(at.actual, weights)
		if !ok {
			continue
		}
		costs[at.name] = n
		if each != nil {
			each(at.name, n, at.price.Learn != nil)
		}
	}
}

// lost reports whether a source is in a body that could not be read whole.
func (r *Reading) lost(of [2]int) bool {
	for i := of[0]; i < of[1]; i++ {
		if r.of.slots[i] >= 0 && !r.whole || r.of.all[i].Bytes && !r.known {
			return true
		}
	}
	return false
}
