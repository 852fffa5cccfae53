package book_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

func TestMoney(t *testing.T) {
	for text, want := range map[string]int64{
		"0 USD": 0, "0.000001 USD": 1, "12.5 USD": 12_500_000, "12.50 USD": 12_500_000, "500 USD": 500_000_000, "9007199254.740991 USD": window.MaxUnits,
	} {
		if n, err := book.ParseMoney(text); n != want || err != nil {
			t.Errorf("%s is %d, %v, want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "USD", " USD", "12", "12 usd", "12USD", "12  USD", "1.2.3 USD", "1. USD", ".5 USD", "-1 USD", "+1 USD", "01 USD", "1e3 USD", "1,000 USD", "0.0000001 USD", "9007199254.740992 USD", "99999999999999999999 USD", "12 USD "} {
		if n, err := book.ParseMoney(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
	for n, want := range map[int64]string{0: "0.00 USD", 1: "0.000001 USD", 1_500_000: "1.50 USD", -20_000: "-0.02 USD", 412_070_000: "412.07 USD", 123_450: "0.12345 USD"} {
		if got := book.FormatMoney(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
		if back, err := book.ParseMoney(strings.TrimPrefix(want, "-")); err != nil || back != max(n, -n) {
			t.Errorf("%s is %d, %v", want, back, err)
		}
	}
}

// A bill is the sum of all values times their prices, rounded up once.
func TestWeigh(t *testing.T) {
	rates := book.Rates{"in": 75_000, "out": 10_000_001}
	in, out := book.Source{Price: "in"}, book.Source{Price: "out"}
	less, copies := book.Source{Role: book.TakenOff}, book.Source{Role: book.Factor}
	for _, test := range []struct {
		sources []book.Source
		values  []int64
		want    int64
	}{
		{[]book.Source{in}, []int64{0}, 0},
		{[]book.Source{in}, []int64{1}, 1},
		{[]book.Source{in, in, in}, []int64{1, 1, 1}, 1}, // 0.225 millionths, and not three
		{[]book.Source{in, out}, []int64{40, 1}, 14},     // 3 + 10.000001
		{[]book.Source{in, less, out}, []int64{100, 60, 0}, 3},
		{[]book.Source{in, less, out}, []int64{100, 160, 1}, 11}, // never below nothing
		{[]book.Source{out, copies, in}, []int64{10, 3, 0}, 301},
		{[]book.Source{out, copies}, []int64{window.MaxUnits, window.MaxUnits}, window.MaxUnits},
	} {
		if got := book.Weigh(test.sources, test.values, rates); got != test.want {
			t.Errorf("%v is %d, want %d", test.values, got, test.want)
		}
	}
	for range 1000 {
		a, b, p, q := rand.Int64N(1e6), rand.Int64N(1e6), rand.Int64N(1e9), rand.Int64N(1e3)
		exact := (a*p + b*q + 999_999) / 1_000_000
		if got := book.Weigh([]book.Source{in, out}, []int64{a, b}, book.Rates{"in": p, "out": q}); got != exact {
			t.Fatalf("%d x %d + %d x %d is %d, want %d", a, p, b, q, got, exact)
		}
	}
}

const pricedBook = `
revision: 1
budgets: {all: {quota: 20 USD, windows: [{per: month}], of: llm}}
upstreams:
  llm:
    hosts: [llm.example.com]
    pools: {calls: {quota: 10, windows: [{per: 1m}]}}
    prices:
      by: [{body: model}, {body: tier, match: '^(?:standard)?(.*)$'}]
      cases: {big: {in: 2 USD, out: 10 USD}, "big-*": {in: 3 USD, out: 9 USD}, "big-new-*": {in: 1 USD, out: 1 USD}, "big,fast": {in: 4 USD, out: 20 USD}, poor: {in: 1 USD}}
    methods:
      ask: {route: POST /ask, cost: 1, bill: {estimate: [{bytes: body, price: in}, {body: max, default: 1000, copies: n, price: out}], actual: {body: used, less: free, price: out}}}
      flat: {route: GET /flat, cost: 1, bill: 0.01 USD}
`

func TestPriceLists(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(pricedBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	u := b.Upstreams["llm"]
	l, ask := u.Prices, u.Methods["ask"].Bill
	for name, want := range map[string]int64{"big": 2_000_000, "big-": 3_000_000, "big-old": 3_000_000, "big-new-1": 1_000_000, "big,fast": 4_000_000, "bigger": 0, "": 0, "big,slow": 0} {
		if c, _ := l.Find(name, time.Time{}); c.Most(0)["in"] != want {
			t.Errorf("%q costs %v, want %d", name, c, want)
		}
	}
	for want, parts := range map[string][]string{"big": {"big", ""}, "big,fast": {"big", "fast"}, "fast": {"", "fast"}} {
		if got := l.Name(parts); got != want {
			t.Errorf("%q is %q, want %q", parts, got, want)
		}
	}
	rates := func(name string) book.Rates {
		c, _ := l.Find(name, time.Time{})
		return c.Most(0)
	}
	if lacks := ask.Lacks(rates("poor")); lacks != "out" {
		t.Errorf("poor lacks %q", lacks)
	}
	for name, want := range map[string]string{"big": "big", "big-old": "big-*", "big-new-1": "big-new-*", "bigger": ""} {
		if _, fits := l.Find(name, time.Time{}); fits != want {
			t.Errorf("%q fits %q, want %q", name, fits, want)
		}
	}
	if l.Admit = true; rates("bigger")["out"] != 20_000_000 || rates("bigger")["in"] != 4_000_000 {
		t.Errorf("the dearest is %v", rates("bigger"))
	}
	if ask.Known != 20_000 { // 1000 tokens of output in the dearest tier
		t.Errorf("of an unknown call: %d", ask.Known)
	}
	for bill, want := range map[*book.Bill]string{
		ask:                    "reserves in for (the bytes of the body) + out for (max, or 1000 if it is missing) x n; settles to out for (used) less free",
		u.Methods["flat"].Bill: "0.01 USD",
	} {
		if bill.String() != want {
			t.Errorf("%s, want %s", bill, want)
		}
	}
	words := strings.Join(append(u.Words(), b.Upstreams[book.Budgets].Words()...), "\n")
	for _, want := range []string{"spends budget all: 20.00 USD in month UTC", "prices of a million by model and what", "big,fast has in 4.00 USD and out 20.00 USD;", "others cost the dearest", "pool all: 20.00 USD in month UTC"} {
		if !strings.Contains(words, want) {
			t.Errorf("%s lacks %s", words, want)
		}
	}
	if strings.Join(b.Metered(), " ") != "llm" {
		t.Errorf("%v", b.Metered())
	}
	again, err := book.Make(b.Keys(), nil)
	if err != nil || string(again.Format()) != string(b.Format()) {
		t.Errorf("printed and read again: %v\n%s", err, again.Format())
	}
}

// Long calls and later days have prices of their own.
func TestPricesByLengthAndDay(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
budgets: {all: {quota: 20 USD, windows: [{per: month}], of: llm}}
upstreams:
  llm:
    hosts: [llm.example.com]
    pools: {calls: {quota: 10, windows: [{per: 1m}]}}
    prices:
      by: {body: model}
      length: [in, cached]
      cases:
        big above 1000 from 2027-01-01: {in: 9 USD, cached: 0.50 USD, out: 30 USD}
        big from 2027-01-01: {in: 4 USD, cached: 0.40 USD, out: 20 USD}
        big: {in: 2 USD, cached: 0.20 USD, out: 10 USD}
        big above 1000: {in: 4 USD, cached: 0.10 USD, out: 15 USD}
        big above 5000: {in: 8 USD, cached: 0.80 USD, out: 15 USD}
        new from 2027-02-01: {in: 1 USD, cached: 1 USD, out: 1 USD}
    methods:
      ask: {route: POST /ask, cost: 1, bill: {estimate: [{bytes: body, price: in}, {body: max, default: 10, price: out}], actual: [{body: in, less: cached, price: in}, {body: cached, price: cached}, {body: out, price: out}]}}
      guess: {route: POST /guess, cost: 1, bill: {estimate: {body: max, default: 10, price: out}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, bill := b.Upstreams["llm"].Prices, b.Upstreams["llm"].Methods["ask"].Bill
	before, after := time.Date(2026, 12, 31, 23, 59, 59, 999e6, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		day                     time.Time
		in, cached, out         int64
		reserves, settles, most int64 // with the bytes of in, and a maximum of out
	}{
		{before, 1000, 200, 10, 2100, 800*2 + 40 + 100, 2},
		{before, 1001, 201, 10, 1001*4 + 150, 800*4 + 21 + 150, 4}, // 20.1 is rounded up
		{before, 5000, 0, 0, 20000, 20000, 4},
		{before, 5001, 5001, 1, 5001*8 + 15, 4001 + 15, 8},
		{after, 1000, 1000, 1, 4020, 420, 4},
		{after, 1001, 0, 1, 9009 + 30, 9009 + 30, 9},
		{after, 9000, 0, 0, 81000, 72000, 9}, // what holds above 5000 stands, and may be less
	} {
		c, fits := l.Find("big", test.day)
		if fits != "big" {
			t.Fatalf("it fits %q", fits)
		}
		if got := bill.Reserve([]int64{test.in, test.out}, c); got != test.reserves {
			t.Errorf("%+v reserves %d", test, got)
		}
		if got := bill.Settle([]int64{test.in, test.cached, test.cached, test.out}, c); got != test.settles {
			t.Errorf("%+v settles to %d", test, got)
		}
		if got := c.Most(test.in)["in"]; got != test.most*1_000_000 {
			t.Errorf("%+v: at most %d", test, got)
		}
	}
	c, _ := l.Find("big", before)
	if got := b.Upstreams["llm"].Methods["guess"].Bill.Reserve([]int64{7}, c); got != 7*15 { // it may be long
		t.Errorf("a call of which nobody knows the length reserves %d", got)
	}
	if c, fits := l.Find("new", after); c != nil || fits != "" {
		t.Errorf("a model of next month costs %v", c)
	}
	if c, _ := l.Find("new", after.AddDate(0, 1, 0)); c.Most(0)["in"] != 1_000_000 {
		t.Errorf("it costs %v", c)
	}
	for range 1000 { // what is reserved bounds what is settled to, if the bytes bound the tokens
		c, _ := l.Find("big", before)
		bytes, most := rand.Int64N(7000), rand.Int64N(100)
		in, out := rand.Int64N(bytes+1), rand.Int64N(most+1)
		cached := rand.Int64N(in + 1)
		if r, s := bill.Reserve([]int64{bytes, most}, c), bill.Settle([]int64{in, cached, cached, out}, c); s > r {
			t.Fatalf("%d of %d bytes, %d cached, %d of %d: reserved %d, settled to %d", in, bytes, cached, out, most, r, s)
		}
	}
	if again, err := book.Make(b.Keys(), nil); err != nil || string(again.Format()) != string(b.Format()) {
		t.Errorf("printed and read again: %v\n%s", err, again.Format())
	}
	if words := strings.Join(b.Upstreams["llm"].Words(), "\n"); !strings.Contains(words, "a call is as long as its units of in and cached; others are refused") {
		t.Errorf("%s", words)
	}
}

// Prices, bills and budgets may be laid over those of another book, one by one.
func TestOverlaysOfPriceLists(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(`
extends: builtin
budgets: {all: null, team: {quota: 1 USD, windows: [{per: day}], of: llm}}
upstreams: {llm: {prices: {default: dearest, cases: {big: {in: 5 USD}, poor: null, own: {in: 1 USD, out: 2 USD}}}, methods: {flat: {bill: 0.02 USD}, ask: {bill: null}}}}
`), &book.Options{Builtins: func(string) ([]byte, bool) { return []byte(pricedBook), true }})
	if err != nil {
		t.Fatal(err)
	}
	u := b.Upstreams["llm"]
	big, own := u.Prices.Cases["big"][0].Rates, u.Prices.Cases["own"][0].Rates
	if big["in"] != 5_000_000 || big["out"] != 10_000_000 || !u.Prices.Admit || u.Prices.Cases["poor"] != nil || own["out"] != 2_000_000 {
		t.Errorf("%+v", u.Prices)
	}
	if u.Methods["flat"].Bill.Known != 20_000 || u.Methods["ask"].Bill != nil || len(u.Budgets) != 1 || u.Budgets[0].Name != "team" {
		t.Errorf("%+v, %v", u.Methods["flat"].Bill, u.Budgets)
	}
	if !strings.Contains(string(b.Diff()), `all: null`) {
		t.Errorf("%s", b.Diff())
	}
}

// A budget with quota none is that of its keys alone.
func TestBudgetOfKeysAlone(t *testing.T) {
	b := parse(t, strings.Replace(pricedBook, "budgets: {", "budgets: {callers: {quota: none, windows: [{per: day}], of: llm, by: {call: caller}, keys: {etl: 5 USD}}, ", 1))
	u := b.Upstreams["llm"]
	for job, want := range map[string]int{"etl": 2, "etl/nightly": 2, "other": 1, "": 1} {
		if all := u.BudgetsOf(nil, "ask", job); len(all) != want {
			t.Errorf("%q spends %d budgets, want %d", job, len(all), want)
		}
	}
	if all := u.BudgetsOf(map[string]string{"budgets/callers": "other"}, "ask", "etl"); len(all) != 1 {
		t.Errorf("the key of a call does not count: it spends %d budgets", len(all))
	}
	more, err := parse(t, pricedBook).With("callers", b.Keys().Budgets["callers"])
	if err != nil || !strings.Contains(string(more.Format()), `{etl: "5 USD"}`) || string(more.Format()) != string(b.Format()) {
		t.Errorf("with the budget: %v\n%s", err, more.Format())
	}
	for text, want := range map[string]string{
		"quota: none, windows: [{per: day}], of: llm":                                            "has no quota, so it needs by and keys",
		"quota: none, windows: [{per: day}], of: llm, by: {call: caller}":                        "has no quota, so it needs by and keys",
		"quota: nothing, windows: [{per: day}], of: llm, by: {call: caller}, keys: {etl: 5 USD}": "is no amount",
	} {
		_, err := book.Parse("test", []byte(strings.Replace(pricedBook, "quota: 20 USD, windows: [{per: month}], of: llm", text, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
