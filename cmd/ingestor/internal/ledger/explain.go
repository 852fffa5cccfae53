package ledger

import (
	"maps"
	"slices"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
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
func explain(a *session.Session, b *quota.Book, name string) error {
	if u := b.Upstreams[name]; u != nil {
		e := explainUpstream(u)
		return a.Print(e, func(s *console.Sheet) { writeExplained(s, e) })
	}
	u, m, err := session.FindMethod(b, name)
	if err != nil {
		return err
	}
	p := explainMethod(u, m)
	return a.Print(p, func(s *console.Sheet) {
		writePrice(s, &p)
		told(s, session.Answers(u, m))
	})
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
	e := &explained{Upstream: u.Name, Source: u.Source, Methods: []price{}, Answers: session.Answers(u, nil), Words: u.Words()}
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

func writeExplained(s *console.Sheet, e *explained) {
	s.Line("%s", s.In(console.Bold, e.Upstream))
	if e.Source != "" {
		verified := ""
		if e.Verified != "" {
			verified = ", verified on " + e.Verified
		}
		s.Line("  source: %s%s", e.Source, verified)
	}
	told(s, e.Words)
	for i := range e.Methods {
		writePrice(s, &e.Methods[i])
	}
}

// told lists what answers tell.
func told(s *console.Sheet, answers []string) {
	for _, text := range answers {
		s.Line("  %s", s.Wrap(text, 4))
	}
}

func writePrice(s *console.Sheet, p *price) {
	s.Line("%s", s.In(console.Bold, p.Upstream+" "+p.Method))
	for _, pool := range slices.Sorted(maps.Keys(p.Charges)) {
		text := console.Units(p.Charges[pool])
		if words := p.Prices[pool]; words != "" {
			text = words
		}
		s.Line("  %s", s.Wrap(pool+": "+text, 4))
	}
	for _, r := range p.Routes {
		s.Line("  %s", r)
	}
	s.Line("  while the ledger is unreachable: %s", p.Outage)
	if p.Source != "" {
		s.Line("  source: %s", s.Wrap(p.Source, 10))
	}
}
