package book

import (
	"cmp"
	"iter"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// Rates are the prices of a million, in millionths, by their names.
type Rates map[string]int64

// PriceList has the prices of what the calls of an upstream use.
type PriceList struct {
	By      []Source
	Cases   map[string][]PriceCase // by the text of By; one that ends with * stands for all that begin so
	Length  []string               // the prices whose units add up to the length of a call
	Dearest Rates                  // the highest of each name
	Admit   bool                   // a call that no case fits costs the dearest

	Source   string    // where they were read
	Verified time.Time // the day on which somebody last compared them; zero if the book has none
}

// PriceCase has prices of calls that are longer than Above, from a time on.
type PriceCase struct {
	Name  string // as the book has it
	Above int64
	From  time.Time
	Rates Rates
}

// Case has the prices of a call by its length, the longest last.
type Case []PriceCase

// Most returns the highest prices of a call that is no longer.
func (c Case) Most(length int64) Rates {
	most := maps.Clone(c.at(0))
	for i := range c {
		for name, n := range c[i].Rates {
			if c[i].Above < length {
				most[name] = max(most[name], n)
			}
		}
	}
	return most
}

func (c Case) at(length int64) (rates Rates) {
	for i := range c {
		if i == 0 || c[i].Above < length {
			rates = c[i].Rates
		}
	}
	return rates
}

// Name returns the text by which the prices of a call are found.
func (l *PriceList) Name(parts []string) string {
	var given []string
	for i := range l.By {
		if text := cmp.Or(parts[i], l.By[i].DefaultText); text != "" {
			given = append(given, text)
		}
	}
	return strings.Join(given, ",")
}

// Find returns the prices that a text has at a time, and the name that fits it; nil if it has none.
func (l *PriceList) Find(name string, now time.Time) (c Case, fits string) {
	if c = at(l.Cases[name], now); c != nil {
		return c, name
	}
	for n := len(name); n >= 0; n-- {
		if c = at(l.Cases[name[:n]+"*"], now); c != nil {
			return c, name[:n] + "*"
		}
	}
	if l.Admit {
		return l.dearest(), "dearest"
	}
	return nil, ""
}

func (l *PriceList) dearest() Case { return Case{{Rates: l.Dearest}} }

// at returns the prices in force at a time: of each length those that began last. The cases are in the order of
// their lengths and days.
func at(cases []PriceCase, now time.Time) (c Case) {
	for _, one := range cases {
		switch {
		case one.From.After(now):
		case len(c) > 0 && c[len(c)-1].Above == one.Above:
			c[len(c)-1] = one
		case len(c) > 0 || one.Above == 0:
			c = append(c, one)
		}
	}
	return c
}

// Bill is what a call costs in money.
type Bill struct {
	Known    int64    // millionths, if nothing is known of the call
	Estimate []Source // each has a price, and is added up; nil: the bill is always Known
	Actual   []Source
	Prices   *PriceList // nil for a fixed bill
}

// Lacks returns the name of a price that the bill needs and the rates lack, or "".
func (b *Bill) Lacks(rates Rates) string {
	for _, sources := range [...][]Source{b.Estimate, b.Actual} {
		for i := range sources {
			if _, has := rates[sources[i].Price]; !has && sources[i].Role == 0 {
				return sources[i].Price
			}
		}
	}
	return ""
}

// Role is what a source does to the one before it.
type Role int8

// The roles; the zero value is a value of its own.
const (
	TakenOff Role = iota + 1 // it is taken off
	Factor                   // it multiplies
)

// Weigh adds up values, each times the price of a million that its source has, and rounds the
// sum up to whole millionths. This is the only rounding of a bill.
func Weigh(sources []Source, values []int64, rates Rates) int64 {
	sum := new(big.Int)
	for price, n := range amounts(sources, values) {
		sum.Add(sum, n.Mul(n, big.NewInt(rates[price])))
	}
	return units(sum.Add(sum, big.NewInt(Millionths-1)).Quo(sum, big.NewInt(Millionths)))
}

// Reserve returns the most that a call costs, of which the values of the estimate are known. If none of them tells its
// length, it may be long.
func (b *Bill) Reserve(values []int64, c Case) int64 {
	length := int64(window.MaxUnits)
	if slices.ContainsFunc(b.Estimate, func(s Source) bool { return slices.Contains(b.Prices.Length, s.Price) }) {
		length = b.Prices.length(b.Estimate, values)
	}
	return Weigh(b.Estimate, values, c.Most(length))
}

// Settle returns what a call has cost, by the values of the answer.
func (b *Bill) Settle(values []int64, c Case) int64 {
	return Weigh(b.Actual, values, c.at(b.Prices.length(b.Actual, values)))
}

// length adds up the values whose prices make the length of a call.
func (l *PriceList) length(sources []Source, values []int64) int64 {
	sum := new(big.Int)
	for price, n := range amounts(sources, values) {
		if slices.Contains(l.Length, price) {
			sum.Add(sum, n)
		}
	}
	return units(sum)
}

func units(sum *big.Int) int64 {
	if !sum.IsInt64() {
		return window.MaxUnits
	}
	return min(sum.Int64(), window.MaxUnits)
}

// amounts yields what is multiplied by each price.
func amounts(sources []Source, values []int64) iter.Seq2[string, *big.Int] {
	return func(yield func(string, *big.Int) bool) {
		for i := 0; i < len(sources); {
			n, price := big.NewInt(values[i]), sources[i].Price
			for i++; i < len(sources) && sources[i].Role != 0; i++ {
				if v := big.NewInt(values[i]); sources[i].Role == Factor {
					n.Mul(n, v.SetInt64(max(values[i], 1))) // an upstream that accepts 0 makes one
				} else if n.Sub(n, v); n.Sign() < 0 {
					n.SetInt64(0)
				}
			}
			if !yield(price, n) {
				return
			}
		}
	}
}

// caseName takes apart the name of a case: the text, the length above which it holds, and its first day.
var caseName = regexp.MustCompile(`^(.*?)(?: above (\d{1,15}))?(?: from (\d{4}-\d{2}-\d{2}))?$`)

func (r *reader) prices(d *keys.PriceList) *PriceList {
	if d == nil || !r.readable(d) || !r.sound(d) {
		return nil
	}
	l := &PriceList{Cases: map[string][]PriceCase{}, Length: d.Length, Dearest: Rates{}, Admit: d.Default == "dearest", Source: d.Source}
	l.Verified, _ = time.Parse(time.DateOnly, d.Verified)
	var ok bool
	if l.By, ok = r.keySources(d.By); !ok {
		return nil
	}
	before := len(r.faults)
	for _, name := range r.names(&d.Cases) {
		one, at := PriceCase{Name: name, Rates: Rates{}}, r.written(&d.Cases).Get(name).At
		for price, text := range d.Cases[name] {
			one.Rates[price] = amount(text)
			l.Dearest[price] = max(l.Dearest[price], one.Rates[price])
		}
		parts := caseName.FindStringSubmatch(name)
		one.Above, _ = strconv.ParseInt(parts[2], 10, 64)
		var err error
		if one.From, err = time.Parse(time.DateOnly, cmp.Or(parts[3], "0001-01-01")); err != nil {
			r.fault(at, "case %q begins on a day that no calendar has", name)
			continue
		}
		if base := d.Cases[parts[1]]; base != nil && !maps.EqualFunc(base, d.Cases[name], func(string, string) bool { return true }) {
			r.fault(at, "case %q must have the same prices as %q: %s", name, parts[1], list(slices.Sorted(maps.Keys(base)), "and"))
		} else if base == nil && one.Above > 0 {
			r.fault(at, "case %q is for long calls only; add the case %q, for others", name, parts[1])
		}
		if one.Above > 0 && len(d.Length) == 0 {
			r.fault(at, "case %q needs to know what makes a call long; add length: the names of the prices whose units add up to it, as in length: [%s]", name, slices.Sorted(maps.Keys(one.Rates))[0])
		}
		l.Cases[parts[1]] = append(l.Cases[parts[1]], one)
	}
	for _, cases := range l.Cases {
		order := func(a, b PriceCase) int { return cmp.Or(cmp.Compare(a.Above, b.Above), a.From.Compare(b.From)) }
		slices.SortStableFunc(cases, order)
		for i := range cases[1:] {
			if order(cases[i], cases[i+1]) == 0 {
				r.fault(r.written(&d.Cases).Get(cases[i+1].Name).At, "case %q is for the same calls as case %q; remove one of the two", cases[i+1].Name, cases[i].Name)
			}
		}
	}
	for i := range d.Length {
		if _, has := l.Dearest[d.Length[i]]; !has {
			r.fault(r.place(&d.Length), "no case of prices has a price %q%s", d.Length[i], orMean(d.Length[i], slices.Sorted(maps.Keys(l.Dearest)), "add it to the cases"))
		}
	}
	if len(r.faults) > before {
		return nil
	}
	return l
}

func (r *reader) bill(d *keys.Bill, u *Upstream, of *keys.Upstream) *Bill {
	if d == nil || !r.readable(d) || !r.sound(d) {
		return nil
	}
	if d.Amount != "" {
		return &Bill{Known: amount(d.Amount)}
	}
	b := &Bill{Prices: u.Prices}
	if of.Prices == nil {
		r.fault(r.place(d), "a bill that depends on the call needs the prices of upstream %q; add prices: {by: {body: model}, cases: ...}", u.Name)
		return nil
	}
	if u.Prices == nil {
		return nil
	}
	var ok bool
	if b.Estimate, ok = r.billed(d.Estimate, forEstimate, u.Prices); !ok {
		return nil
	}
	if b.Actual, ok = r.billed(d.Actual, forActual, u.Prices); !ok {
		return nil
	}
	unknown := make([]int64, len(b.Estimate))
	for i := range b.Estimate {
		unknown[i] = valueOf(b.Estimate[i].Default)
	}
	b.Known = b.Reserve(unknown, u.Prices.dearest())
	return b
}

func (r *reader) billed(all []keys.Source, why purpose, prices *PriceList) (sources []Source, ok bool) {
	before := len(r.faults)
	for i := range all {
		d := &all[i]
		s, ok := r.source(d, why)
		if !ok {
			continue
		}
		switch _, has := prices.Dearest[d.Price]; {
		case d.Price == "":
			r.fault(r.place(d), "%s of a bill needs a price: the name of one in prices, such as price: %s", why, cmp.Or(list(slices.Sorted(maps.Keys(prices.Dearest)), "or"), "output"))
			continue
		case !has:
			r.fault(r.place(&d.Price), "no case of prices has a price %q%s", d.Price, orMean(d.Price, slices.Sorted(maps.Keys(prices.Dearest)), "add it to the cases"))
			continue
		}
		s.Price = d.Price
		sources = append(sources, s)
		switch {
		case d.Less != "" && why == forEstimate:
			r.fault(r.place(&d.Less), "less belongs to actual: a request could name more than is taken off")
		case d.Copies != "" && why == forActual:
			r.fault(r.place(&d.Copies), "copies belongs to estimate: an answer tells what all of them have used")
		}
		if d.Less != "" {
			sources = append(sources, beside(d.Less, TakenOff, 0))
		}
		if d.Copies != "" {
			sources = append(sources, beside(d.Copies, Factor, 1))
		}
	}
	return sources, len(r.faults) == before
}

// beside returns a source that changes the one before it.
func beside(member string, role Role, missing int64) Source {
	return Source{Body: member, Role: role, Default: &missing, Per: 1, Times: 1, Max: window.MaxUnits}
}

func (l *PriceList) words() string {
	by := make([]string, len(l.By))
	for i := range by {
		by[i] = l.By[i].String()
	}
	text := "prices of a million by " + list(by, "and") + ":"
	for _, of := range slices.Sorted(maps.Keys(l.Cases)) {
		for _, c := range l.Cases[of] {
			var each []string
			for _, price := range slices.Sorted(maps.Keys(c.Rates)) {
				each = append(each, price+" "+FormatMoney(c.Rates[price]))
			}
			text += " " + c.Name + " has " + list(each, "and") + ";"
		}
	}
	if len(l.Length) > 0 {
		text += " a call is as long as its units of " + list(l.Length, "and") + ";"
	}
	if !l.Verified.IsZero() {
		text += " compared on " + l.Verified.Format(time.DateOnly)
		if l.Source != "" {
			text += " with " + l.Source
		}
		text += ";"
	}
	if l.Admit {
		return text + " others cost the dearest"
	}
	return text + " others are refused"
}

// String says in words what a bill reserves, and what it settles to.
func (b *Bill) String() string {
	if b.Prices == nil {
		return FormatMoney(b.Known)
	}
	text := "reserves " + billWords(b.Estimate)
	if len(b.Actual) > 0 {
		text += "; settles to " + billWords(b.Actual)
	}
	return text
}

func billWords(sources []Source) string {
	var all []string
	for i := range sources {
		switch s := &sources[i]; s.Role {
		case TakenOff:
			all[len(all)-1] += " less " + s.where()
		case Factor:
			all[len(all)-1] += " x " + s.where()
		default:
			all = append(all, s.Price+" for ("+s.String()+")")
		}
	}
	return strings.Join(all, " + ")
}
