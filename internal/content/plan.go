package content

import (
	"maps"
	"slices"

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
}

// key is what names the key of a pool: the index of its first source.
type key struct {
	pool *book.Pool
	from int
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
// content of its calls.
func NewPlan(u *book.Upstream, m *book.Method) *Plan {
	p := &Plan{Priced: len(m.Prices) > 0}
	var request, answer []*book.Source
	for _, name := range slices.Sorted(maps.Keys(m.Prices)) {
		price := m.Prices[name]
		at := pool{name: name, price: price, known: m.Charges[name]}
		request, at.estimate = appended(request, price.Estimate)
		answer, at.actual = appended(answer, price.Actual)
		p.pools = append(p.pools, at)
	}
	prices := len(request)
	for _, name := range slices.Sorted(maps.Keys(m.Charges)) {
		if of := u.Pools[name]; of != nil && of.By != nil {
			p.keys = append(p.keys, key{of, len(request)})
			request, _ = appended(request, of.By)
		}
	}
	if len(p.pools) == 0 && len(p.keys) == 0 {
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
		parts := make([]string, len(k.pool.By))
		for i := range parts {
			parts[i], _ = r.Text(k.from + i)
		}
		if text := k.pool.Key(parts); text != "" {
			all[k.pool.Name] = text
		}
	}
	return all
}

// Learned returns what the recent calls of a method have cost a pool, to reserve it for the
// next one; false if too few are known.
type Learned func(pool string, share int) (int64, bool)

// Estimate returns what to reserve for a request, by pool.
func (p *Plan) Estimate(r *Reading, learned Learned) map[string]int64 {
	all := make(map[string]int64, len(p.pools))
	for i := range p.pools {
		at := &p.pools[i]
		units, read := at.known, false
		if len(at.price.Estimate) > 0 {
			if n, ok := r.sum(at.estimate); ok {
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

// sum adds up sources.
func (r *Reading) sum(of [2]int) (sum int64, ok bool) {
	for i := of[0]; i < of[1]; i++ {
		n, ok := r.Units(i)
		if !ok {
			return 0, false
		}
		sum = add(sum, n)
	}
	return sum, true
}

// Actual sets in costs what a call has cost by its answer. A pool whose cost the answer
// does not tell keeps what it has. Each is called for a cost that the answer told; it may
// be nil.
func (p *Plan) Actual(r *Reading, costs map[string]int64, each func(pool string, units int64, learn bool)) {
	for i := range p.pools {
		at := &p.pools[i]
		if at.price.Actual == nil || r.lost(at.actual) {
			continue
		}
		n, ok := r.sum(at.actual)
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
