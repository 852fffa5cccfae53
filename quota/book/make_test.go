package book_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// madeAgain checks that a book that is turned into structs makes an equal book.
func madeAgain(t *testing.T, b *book.Book) {
	t.Helper()
	again, err := book.Make(b.Keys(), nil)
	if err != nil {
		t.Errorf("%v\nin\n%s", err, b.Format())
		return
	}
	if diff := sameBook(b, again); diff != "" {
		t.Errorf("made again it differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(string(b.Format()), string(again.Format())); diff != "" {
		t.Errorf("made again it prints otherwise (-want +got):\n%s", diff)
	}
}

// These are all the valid books that there are: the built-in ones, that of the fixtures, and
// the examples of the reference. The tests that print a book make it again, too.
func TestEveryBookIsMadeAgain(t *testing.T) {
	names := headroom.ListBuiltin()
	if len(names) < 2 {
		t.Errorf("built-in books: %q", names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			b, err := headroom.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			madeAgain(t, b)
		})
	}
	madeAgain(t, parse(t, "extends: builtin")) // of the fixtures, the only one that has no fault
	page, err := os.ReadFile("../../docs/price-book.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(examples) < 10 {
		t.Errorf("docs/price-book.md has %d examples", len(examples))
	}
	for _, m := range examples {
		b, err := book.Parse("example", m[1], &book.Options{Builtins: headroom.ReadBuiltin})
		if err != nil {
			t.Fatal(err)
		}
		madeAgain(t, b)
	}
}

// A row is a book in YAML and the same as structs.
func TestMake(t *testing.T) {
	pools := map[string]*keys.Pool{"units": {Quota: keys.Each(100), Windows: []keys.Window{{Per: "1m"}}}}
	in := func(u keys.Upstream) *keys.Book {
		if u.Pools == nil {
			u.Pools = pools
		}
		return &keys.Book{Revision: 1, Upstreams: map[string]*keys.Upstream{"a": &u}}
	}
	for _, c := range []struct {
		name, text string
		made       *keys.Book
	}{
		{"nothing", "{revision: 1}", &keys.Book{Revision: 1}},
		{
			"windows", "{revision: 1, upstreams: {a: {pools: {p: {quota: 100, headroom: 0, windows: [{per: 90s, late: 1500ms}, {per: day, zone: Europe/Berlin, lag: 0s}, {per: 1s, algorithm: bucket, burst: 200}]}, q: {windows: [{in_flight: 5, ttl: 30s}]}}}}}",
			in(keys.Upstream{Pools: map[string]*keys.Pool{
				"p": {Quota: keys.Each(100), Headroom: new(int64(0)), Windows: []keys.Window{
					{Per: keys.Every(90 * time.Second), Late: 1500 * time.Millisecond},
					{Per: "day", Zone: "Europe/Berlin", Lag: new(time.Duration(0))},
					{Per: "1s", Algorithm: window.Leaky, Burst: 200},
				}},
				"q": {Windows: []keys.Window{{InFlight: 5, TTL: 30 * time.Second}}},
			}}),
		},
		{
			"prices", "{revision: 1, upstreams: {a: {pools: {units: {quota: 100, windows: [{per: 1m}]}}, methods: {free: 0, m: {charge: {units: {estimate: [{body: max, default: 40, cases: {a: 0}}, 3], actual: {body: used}, counted: end}}}}}}}",
			in(keys.Upstream{Methods: map[string]*keys.Method{
				"free": {Cost: keys.Units(0)},
				"m": {Charge: map[string]*keys.Price{"units": {
					Estimate: []keys.Source{{Body: "max", Default: keys.Number(40), Cases: map[string]int64{"a": 0}}, {Number: new(int64(3))}},
					Actual:   []keys.Source{{Body: "used"}}, Counted: "end",
				}}},
			}}),
		},
		{
			"callers", "{revision: 1, upstreams: {a: {accounts: any, mode: observe, unpriced: admit, classes: {c: {keep_free: 30%, outage: admit}, d: {keep_free: 5}}, pools: {units: {quota: 100, windows: [{per: 1m}], by: {header: X-Model, default: other}, keys: {k: 7}}}}}}",
			in(keys.Upstream{
				Accounts: map[string]*keys.Account{"*": {}}, Mode: "observe", Unpriced: "admit",
				Classes: map[string]*keys.Class{"c": {KeepFree: keys.Share{Percent: 30}, Outage: string(book.Admit)}, "d": {KeepFree: keys.Share{Units: 5}}},
				Pools: map[string]*keys.Pool{"units": {
					Quota: keys.Each(100), Windows: []keys.Window{{Per: "1m"}}, By: []keys.Source{{Header: "X-Model", Default: keys.Text("other")}}, Keys: map[string]*keys.Key{"k": {Quota: 7}},
				}},
			}),
		},
		{
			"answers", "{revision: 1, upstreams: {a: {pools: {units: {quota: 100, windows: [{per: 1m}]}}, free: [{header: x-a}, {header: {x-b: 0}}], " +
				"refusals: [{status: 429, pool: units, until: reset}, {status: 403, pool: {header: X-Pool}, until: {header: X-At, as: unix}}], feedback: [{pool: units, remaining: {header: X-Left}, per: 1m}]}}}",
			in(keys.Upstream{
				Free: []keys.FreeAnswer{{Header: keys.Header{Name: "x-a"}}, {Header: keys.Header{Name: "x-b", Value: "0"}}},
				Refusals: []keys.Refusal{
					{Status: []int{429}, Pool: keys.PoolName{Name: "units"}, Until: keys.Time{Word: "reset"}},
					{Status: []int{403}, Pool: keys.PoolName{Header: "X-Pool"}, Until: keys.Time{Header: "X-At", As: "unix"}},
				},
				Feedback: []keys.Feedback{{Pool: keys.PoolName{Name: "units"}, Remaining: keys.Source{Header: "X-Left"}, Per: "1m"}},
			}),
		},
		{
			"an overlay", "{extends: builtin, upstreams: {books: {methods: {books.list: 5, books.get: null}}}}",
			&keys.Book{Extends: []string{"builtin"}, Upstreams: map[string]*keys.Upstream{"books": {
				Methods: map[string]*keys.Method{"books.list": {Cost: keys.Units(5)}, "books.get": nil},
			}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := book.Make(c.made, &book.Options{Builtins: small})
			if err != nil {
				t.Fatal(err)
			}
			if diff := sameBook(parse(t, c.text), got); diff != "" {
				t.Errorf("book (-want +got):\n%s", diff)
			}
		})
	}
}

// A fault of the structs is refused like one of a file. That includes what YAML cannot say:
// a value that is two things at once, and text that is not UTF-8.
func TestMakeRefuses(t *testing.T) {
	valid := func() (*keys.Book, *keys.Upstream) {
		u := &keys.Upstream{
			Pools:   map[string]*keys.Pool{"units": {Quota: keys.Each(100), Windows: []keys.Window{{Per: "1m"}}}},
			Methods: map[string]*keys.Method{"m": {Cost: keys.Units(1)}},
		}
		return &keys.Book{Revision: 1, Upstreams: map[string]*keys.Upstream{"a": u}}, u
	}
	for _, c := range []struct {
		want   string
		change func(b *keys.Book, u *keys.Upstream)
	}{
		{"book.Make:5:7: pool \"units\" has no windows; give it at least one, such as {per: 24h}\n    5 |       units:\n      |       ^", func(_ *keys.Book, u *keys.Upstream) { u.Pools["units"].Windows = nil }},
		{"has no revision", func(b *keys.Book, _ *keys.Upstream) { b.Revision = 0 }},
		{`quota of pool "units" must be a whole number from 1 to 9007199254740991, is -5`, func(_ *keys.Book, u *keys.Upstream) { u.Pools["units"].Quota = keys.Each(-5) }},
		{"did you mean \"day\"?", func(_ *keys.Book, u *keys.Upstream) { u.Pools["units"].Windows[0].Per = "dya" }},
		{"cost of method \"m\" must be a whole number from 0 to 9007199254740991, is -1", func(_ *keys.Book, u *keys.Upstream) { u.Methods["m"].Cost = keys.Units(-1) }},
		{"unknown key \"units\" in cost of method \"m\"", func(_ *keys.Book, u *keys.Upstream) { u.Methods["m"].Cost.Counted = "end" }},
		{"there is no method \"n\" to remove", func(_ *keys.Book, u *keys.Upstream) { u.Methods["n"] = nil }},
		{"keep_free must be a whole number from 0 to 9007199254740991, is a mapping", func(_ *keys.Book, u *keys.Upstream) {
			u.Classes = map[string]*keys.Class{"c": {KeepFree: keys.Share{Units: 1, Percent: 2}}}
		}},
		{"keep_free in percent must be a whole number from 0 to 99, is -2", func(_ *keys.Book, u *keys.Upstream) {
			u.Classes = map[string]*keys.Class{"c": {KeepFree: keys.Share{Percent: -2}}}
		}},
		{"default must be text, is a mapping", func(_ *keys.Book, u *keys.Upstream) {
			u.Methods["m"].Cost = &keys.Price{Estimate: []keys.Source{{Body: "m", Default: keys.Fallback{Number: new(int64(1)), Text: "x"}}}}
		}},
		{"unknown key \"text\" in pool of a refusal", func(_ *keys.Book, u *keys.Upstream) {
			u.Refusals = []keys.Refusal{{Status: []int{429}, Pool: keys.PoolName{Name: "units", Header: "x"}, For: time.Minute}}
		}},
		{"a price book is UTF-8 without control characters", func(_ *keys.Book, u *keys.Upstream) { u.Source = "caf\xe9" }},
		{"may have 1 to 256 printable bytes", func(_ *keys.Book, u *keys.Upstream) { u.Source = "a\nmode: observe" }},
	} {
		b, u := valid()
		if _, err := book.Make(b, nil); err != nil {
			t.Fatal(err)
		}
		c.change(b, u)
		made, err := book.Make(b, nil)
		if made != nil || !errors.Is(err, book.ErrBadInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := book.Make(nil, nil); !errors.Is(err, book.ErrBadInput) {
		t.Errorf("no structs: %v", err)
	}
	if _, err := book.Make(&keys.Book{Extends: []string{"builtin"}}, nil); err == nil || !strings.Contains(err.Error(), "no built-in price books are at hand") {
		t.Errorf("no built-in books: %v", err)
	}
}

// Text is text, whatever YAML would take it for.
func TestMakeKeepsTexts(t *testing.T) {
	for _, text := range []string{
		"null", "~", "true", "No", "1", "1e3", "0x1f", ".inf", "2026-11-22", "5%", "1h", "-", "- a", "a: b", "a:", "# a", "a # b", "{a}", "[a", "*a", "&a", "!a", "|", ">", "@a",
		`"`, `'`, `\`, `a\nb`, "é", "日本", "😀", " a ", ",", "<<", "%", "?",
	} {
		b, err := book.Make(&keys.Book{Revision: 1, Upstreams: map[string]*keys.Upstream{"a": {
			Source: text, Pools: map[string]*keys.Pool{"units": {Quota: keys.Each(1), Windows: []keys.Window{{Per: "1m"}}, By: []keys.Source{{Body: "b", Default: keys.Text(text)}}, Keys: map[string]*keys.Key{text: {Quota: 2}}}},
		}}}, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		u := b.Upstreams["a"]
		if p := u.Pools["units"]; u.Source != text || p.By[0].DefaultText != text || p.Keys[text] == nil {
			t.Errorf("%q became %q, %q and %v", text, u.Source, p.By[0].DefaultText, p.Keys)
		}
	}
}

// The structs belong to the caller, before and after.
func TestMadeBookNeverChanges(t *testing.T) {
	given := parse(t, "{revision: 1, upstreams: {a: {hosts: [a.example.com], pools: {units: {quota: 100, headroom: 10, windows: [{per: 1m}]}}, methods: {m: {route: GET /m, cost: 1}}}}}").Keys()
	b, err := book.Make(given, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := b.Format()
	for _, k := range []*keys.Book{given, b.Keys()} {
		u := k.Upstreams["a"]
		u.Hosts[0], *u.Pools["units"].Headroom, u.Pools["units"].Windows[0].Per, *u.Methods["m"].Cost.Fixed = "b.example.com", 20, "2m", 2
		delete(k.Upstreams, "a")
	}
	if after := b.Format(); !slices.Equal(before, after) || b.Upstreams["a"].Hosts[0] != "a.example.com" {
		t.Errorf("the book was\n%s\nand is\n%s", before, after)
	}
	if (*book.Book)(nil).Keys() == nil {
		t.Error("no book has no structs")
	}
}
