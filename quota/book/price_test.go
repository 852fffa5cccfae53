package book_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

const priced = `
revision: 1
upstreams:
  llm:
    hosts: [llm.example.com]
    pools:
      requests: {quota: 1000, windows: [{per: 1m}]}
      tokens: {quota: 80000, windows: [{per: 1m}]}
    methods:
      ask: {route: POST /ask, charge: {requests: 1, tokens: %}}
`

// A row is a price, what is known of it without the request, and the rest.
func TestPrices(t *testing.T) {
	plain := func(s book.Source) book.Source {
		s.Per, s.Times, s.Max = max(s.Per, 1), max(s.Times, 1), window.MaxUnits
		return s
	}
	n := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		text  string
		units int64
		want  *book.Price
	}{
		{"7", 7, nil},
		{"{estimate: 7}", 7, nil},
		{"{estimate: [7, 8]}", 15, nil},
		{"{estimate: 7, actual: {body: usage.total}}", 7, &book.Price{
			Estimate: []book.Source{plain(book.Source{Number: 7})}, Actual: []book.Source{plain(book.Source{Body: "usage.total"})},
		}},
		{"{estimate: [{bytes: body, per: 4}, {body: max, default: 100}], counted: end, actual: [{header: X-Cost, match: 'c=(\\d+)'}, {count: data, times: 2}]}", 100, &book.Price{
			Estimate: []book.Source{plain(book.Source{Bytes: true, Per: 4}), plain(book.Source{Body: "max", Default: n(100)})},
			Actual:   []book.Source{plain(book.Source{Header: "X-Cost", Match: regexp.MustCompile(`c=(\d+)`)}), plain(book.Source{Count: "data", Times: 2})},
			AtEnd:    true,
		}},
		{"{estimate: {learn: p95, first: 2000}, actual: {body: used}}", 2000, &book.Price{
			Learn: &book.Learn{Percent: 95, First: 2000}, Actual: []book.Source{plain(book.Source{Body: "used"})},
		}},
		{"{estimate: {body: max, learn: p50, default: 30}, actual: {body: used}}", 30, &book.Price{
			Estimate: []book.Source{plain(book.Source{Body: "max", Default: n(30)})},
			Learn:    &book.Learn{Percent: 50}, Actual: []book.Source{plain(book.Source{Body: "used"})},
		}},
		{"{estimate: {query: part, cases: {id: 0, all: 9}, split: ',', default: 3}}", 3, &book.Price{
			Estimate: []book.Source{plain(book.Source{Query: "part", Cases: map[string]int64{"id": 0, "all": 9}, Split: ",", Default: n(3)})},
		}},
	} {
		t.Run(c.text, func(t *testing.T) {
			b := parse(t, replaced(priced, c.text))
			m := b.Upstreams["llm"].Methods["ask"]
			if m.Charges["tokens"] != c.units || m.Charges["requests"] != 1 {
				t.Errorf("charges %v, want %d tokens and 1 request", m.Charges, c.units)
			}
			if diff := cmp.Diff(c.want, m.Prices["tokens"], sameRegexp, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("price (-want +got):\n%s", diff)
			}
			roundTrip(t, b)
		})
	}
}

// A price that another book gives replaces the price whole: nothing of the old one is left.
func TestPricesAreReplacedWhole(t *testing.T) {
	for over, want := range map[string]bool{"9": false, "{estimate: {body: m, default: 9}}": true} {
		text := replaced(priced, "{estimate: 7, actual: {body: usage.total}}")
		b, err := book.Parse("over", []byte("extends: builtin\nupstreams: {llm: {methods: {ask: {charge: {tokens: "+over+"}}}}}"),
			&book.Options{Builtins: func(string) ([]byte, bool) { return []byte(text), true }})
		if err != nil {
			t.Fatal(err)
		}
		p := b.Upstreams["llm"].Methods["ask"].Prices["tokens"]
		if (p != nil) != want || p != nil && p.Actual != nil {
			t.Errorf("%s over a price with an actual gives %+v", over, p)
		}
		again, err := book.Parse("diff", b.Diff(), &book.Options{Builtins: func(string) ([]byte, bool) { return []byte(text), true }})
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, b.Diff())
		}
		if diff := sameBook(b, again); diff != "" {
			t.Errorf("the difference reads back as another book:\n%s", diff)
		}
	}
}

// Several built-in books are joined. A revision that rises in one of them raises the whole.
func TestSeveralBooksAreJoined(t *testing.T) {
	books := map[string]string{
		"builtin/a": "revision: 3\nupstreams: {a: {source: https://a.example.com, verified: '2026-11-22', pools: {units: {quota: 5, example: your tier, windows: [{per: 1m}]}}, methods: {get: 1}}}",
		"builtin/b": "revision: 4\nupstreams: {b: {pools: {units: {quota: 6, windows: [{per: 1h}]}}, methods: {get: 2}}, a: {pools: {units: {quota: 5, windows: [{per: 1m}]}}, methods: {get: 3}}}",
	}
	o := &book.Options{Builtins: func(name string) ([]byte, bool) { text, ok := books[name]; return []byte(text), ok }}
	b, err := book.Parse("costs.yaml", []byte("extends: [builtin/a, builtin/b]\nupstreams: {b: {pools: {units: {quota: 7}}}}"), o)
	if err != nil {
		t.Fatal(err)
	}
	a := b.Upstreams["a"]
	if b.Revision != 7 || a.Methods["get"].Charges["units"] != 3 || b.Upstreams["b"].Pools["units"].Windows[0].Quota != 7 {
		t.Errorf("revision %d; %s", b.Revision, b.Format())
	}
	if a.Source != "https://a.example.com" || a.Verified.Format(time.DateOnly) != "2026-11-22" || a.Pools["units"].Example != "your tier" {
		t.Errorf("%q, %v, %q", a.Source, a.Verified, a.Pools["units"].Example)
	}
	again, err := book.Parse("diff", b.Diff(), o)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, b.Diff())
	}
	if diff := sameBook(b, again); diff != "" {
		t.Errorf("%s reads back as another book:\n%s", b.Diff(), diff)
	}
	for text, want := range map[string]string{
		"extends: [builtin/a, builtin/c]":                       "there is no built-in price book \"builtin/c\"",
		"extends: [builtin/a, builtin/a]":                       "extends names builtin/a twice",
		"extends: []":                                           "extends is empty",
		"extends: [builtin/a, 5]":                               "extends must name a built-in price book",
		"extends: builtin/a\nupstreams: {a: {verified: today}}": "is no day; write it as 2026-11-22",
	} {
		if _, err := book.Parse("costs.yaml", []byte(text), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
