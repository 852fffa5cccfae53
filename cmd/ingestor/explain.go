package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// price is the price of a method, in JSON.
type price struct {
	Upstream string            `json:"upstream"`
	Method   string            `json:"method"`
	Charges  map[string]int64  `json:"charges"`          // units by pool; of a price in Prices, if nothing is known of the call
	Prices   map[string]string `json:"prices,omitempty"` // in words, of pools whose price depends on the call
	Routes   []string          `json:"routes"`
	Outage   quota.Policy      `json:"outage"`
	Source   string            `json:"source,omitempty"`
}

// explained is an upstream in words, in JSON.
type explained struct {
	Upstream string   `json:"upstream"`
	Source   string   `json:"source,omitempty"`
	Verified string   `json:"verified,omitempty"`
	Methods  []price  `json:"methods"`
	Answers  []string `json:"answers"` // what answers tell
	Words    []string `json:"words"`   // what holds for all calls, answers included
}

// explain explains a method or an upstream.
func (a *app) explain(b *quota.Book, name string) error {
	if u := b.Upstreams[name]; u != nil {
		e := explainUpstream(u)
		return a.print(e, func(s *sheet) { s.explained(e) })
	}
	u, m, err := findMethod(b, name)
	if err != nil {
		return err
	}
	p := explainMethod(u, m)
	return a.print(p, func(s *sheet) {
		s.price(&p)
		s.told(answers(u, m))
	})
}

// findMethod finds a method by its name.
func findMethod(b *quota.Book, name string) (*book.Upstream, *book.Method, error) {
	var like, all []string
	for _, upstream := range slices.Sorted(maps.Keys(b.Upstreams)) {
		u := b.Upstreams[upstream]
		if m := u.Methods[name]; m != nil {
			return u, m, nil
		}
		for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
			all = append(all, m)
			if strings.Contains(strings.ToLower(m), strings.ToLower(strings.TrimSuffix(name, ".list"))) {
				like = append(like, m)
			}
		}
	}
	const few = 12
	switch {
	case len(like) > 0:
		return nil, nil, usage("the price book has no method %q; did you mean %s?", name, strings.Join(like, ", "))
	case len(all) > 0 && len(all) <= few:
		return nil, nil, usage("the price book has no method and no upstream %q; its methods are %s", name, strings.Join(all, ", "))
	}
	return nil, nil, usage("the price book has no method and no upstream %q\nTo list all methods: ingestor costs show", name)
}

func explainMethod(u *book.Upstream, m *book.Method) price {
	p := price{Upstream: u.Name, Method: m.Name, Charges: m.Charges, Routes: []string{}, Outage: m.Outage, Source: m.Source}
	for _, r := range m.Routes {
		p.Routes = append(p.Routes, r.String())
	}
	for pool, depends := range m.Prices {
		if p.Prices == nil {
			p.Prices = map[string]string{}
		}
		p.Prices[pool] = depends.String()
	}
	return p
}

func explainUpstream(u *book.Upstream) *explained {
	e := &explained{Upstream: u.Name, Source: u.Source, Methods: []price{}, Answers: answers(u, nil), Words: u.Words()}
	if !u.Verified.IsZero() {
		e.Verified = u.Verified.Format("2006-01-02")
	}
	for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
		e.Methods = append(e.Methods, explainMethod(u, u.Methods[m]))
	}
	for _, verb := range slices.Sorted(maps.Keys(u.Default)) {
		e.Methods = append(e.Methods, explainMethod(u, u.Default[verb]))
	}
	return e
}

// answers says what the answers of an upstream tell about pools: of all, or of those
// that a method charges.
func answers(u *book.Upstream, m *book.Method) []string {
	all := []string{}
	for i := range u.Feedback {
		f := &u.Feedback[i]
		if m != nil && f.Pool.From == nil {
			if _, charged := m.Charges[f.Pool.Name]; !charged {
				continue
			}
		}
		all = append(all, f.String())
	}
	return all
}

func (s *sheet) explained(e *explained) {
	s.line("%s", s.in(bold, e.Upstream))
	if e.Source != "" {
		verified := ""
		if e.Verified != "" {
			verified = ", verified on " + e.Verified
		}
		s.line("  source: %s%s", e.Source, verified)
	}
	s.told(e.Words)
	for i := range e.Methods {
		s.price(&e.Methods[i])
	}
}

// told lists what answers tell.
func (s *sheet) told(answers []string) {
	for _, text := range answers {
		s.line("  %s", s.wrap(text, 4))
	}
}

func (s *sheet) price(p *price) {
	s.line("%s", s.in(bold, p.Upstream+" "+p.Method))
	for _, pool := range slices.Sorted(maps.Keys(p.Charges)) {
		text := units(p.Charges[pool])
		if words := p.Prices[pool]; words != "" {
			text = words
		}
		s.line("  %s", s.wrap(pool+": "+text, 4))
	}
	for _, r := range p.Routes {
		s.line("  %s", r)
	}
	s.line("  while the ledger is unreachable: %s", p.Outage)
	if p.Source != "" {
		s.line("  source: %s", s.wrap(p.Source, 10))
	}
}
