package book_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

func parse(t *testing.T, text string) *book.Book {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(text), &book.Options{Builtins: small})
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return b
}

// sameBook compares what can be seen of two books.
func sameBook(a, b *book.Book) string {
	return cmp.Diff(a, b,
		cmpopts.IgnoreUnexported(book.Book{}, book.Upstream{}, book.Pool{}, book.Family{}),
		sameRegexp,
		cmp.Comparer(func(a, b *time.Location) bool {
			return a == b || a != nil && b != nil && a.String() == b.String()
		}))
}

var sameRegexp = cmp.Comparer(func(a, b *regexp.Regexp) bool {
	return a == b || a != nil && b != nil && a.String() == b.String()
})

// replaced puts a value in the place of the percent sign of a book.
func replaced(text, value string) string { return strings.Replace(text, "%", value, 1) }

func TestBookDefaults(t *testing.T) {
	b := parse(t, `
revision: 7
upstreams:
  api:
    hosts: [api.example.com]
    pools:
      units:
        quota: 100
        headroom: 10
        windows:
          - {per: 24h}
          - {per: 10m, quota: 20}
          - {per: 1h, headroom: 0}
          - {per: day, zone: America/Los_Angeles}
          - {per: month, lag: 0s}
          - {per: 1m, algorithm: log}
          - {per: 1m, algorithm: counter, quota: 30, headroom: 5}
    methods: {a: 1, b: {cost: 0, route: [GET /b, POST /b]}}
families:
  client: {quota: 60, windows: [{per: 1m}], keys: {10.0.0.1: 600, "::1": {windows: [{per: 1h, quota: 5}]}}}
`)
	la, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	ring := func(per, precision time.Duration) window.Spec {
		return window.Spec{Algorithm: window.Sliding, Per: per, Precision: precision}
	}
	want := &book.Book{
		Revision: 7,
		Upstreams: map[string]*book.Upstream{"api": {
			Name: "api", Hosts: []string{"api.example.com"}, Unpriced: book.Refuse,
			Classes: map[string]book.Class{}, Accounts: []string{"default"},
			Pools: map[string]*book.Pool{"units": {
				Name: "units", Accounts: map[string][]book.Window{}, SettleFactor: book.SettleFactor,
				Windows: []book.Window{
					{Spec: ring(24*time.Hour, time.Minute), Quota: 100, Headroom: 10},
					{Spec: ring(10*time.Minute, time.Second), Quota: 20},
					{Spec: ring(time.Hour, 2500*time.Millisecond), Quota: 100},
					{Spec: window.Spec{Algorithm: window.ByCalendar, Period: window.Day, Zone: la, Lag: time.Minute}, Quota: 100, Headroom: 10},
					{Spec: window.Spec{Algorithm: window.ByCalendar, Period: window.Month, Zone: time.UTC, Lag: -1}, Quota: 100, Headroom: 10},
					{Spec: window.Spec{Algorithm: window.Exact, Per: time.Minute}, Quota: 100, Headroom: 10},
					{Spec: window.Spec{Algorithm: window.Estimate, Per: time.Minute}, Quota: 30, Headroom: 5},
				},
			}},
			Methods: map[string]*book.Method{
				"a": {Name: "a", Charges: map[string]int64{"units": 1}, Outage: book.Refuse},
				"b": {Name: "b", Charges: map[string]int64{"units": 0}, Outage: book.Refuse, Routes: []book.Route{{Verb: "GET", Path: "/b"}, {Verb: "POST", Path: "/b"}}},
			},
		}},
		Families: map[string]*book.Family{"client": {
			Name: "client", MaxKeys: 100_000,
			Windows: []book.Window{{Spec: ring(time.Minute, time.Second), Quota: 60}},
			Overrides: map[string][]book.Window{
				"10.0.0.1": {{Spec: ring(time.Minute, time.Second), Quota: 600}},
				"::1":      {{Spec: ring(time.Hour, 2500*time.Millisecond), Quota: 5}},
			},
		}},
	}
	if diff := sameBook(want, b); diff != "" {
		t.Errorf("book (-want +got):\n%s", diff)
	}
}

func TestBookAccounts(t *testing.T) {
	const pools = `
revision: 1
upstreams:
  api:
    pools:
      units: {quota: 100, headroom: 10, windows: [{per: 24h}, {per: 10m, quota: 20}]}
`
	for _, c := range []struct {
		name, accounts string
		want           []string
		limits         []int64 // of the first account
	}{
		{"none are listed", "", []string{"default"}, []int64{90, 20}},
		{"an empty list", "accounts: {}", []string{"default"}, []int64{90, 20}},
		{"only those", "accounts: {b: {}, a: {}}", []string{"a", "b"}, []int64{90, 20}},
		{"default if it is listed", "accounts: {default: {}, a: {}}", []string{"a", "default"}, []int64{90, 20}},
		{"a quota of its own", "accounts: {a: {pools: {units: {quota: 500}}}}", []string{"a"}, []int64{490, 20}},
		{"a headroom of its own", "accounts: {a: {pools: {units: {headroom: 0}}}}", []string{"a"}, []int64{100, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := parse(t, pools+"    "+c.accounts).Upstreams["api"]
			if !slices.Equal(u.Accounts, c.want) {
				t.Errorf("accounts %q, want %q", u.Accounts, c.want)
			}
			windows, ok := u.Pools["units"].Accounts[c.want[0]]
			if !ok {
				windows = u.Pools["units"].Windows
			}
			var limits []int64
			for _, w := range windows {
				limits = append(limits, w.Limit(book.Class{}))
			}
			if !slices.Equal(limits, c.limits) {
				t.Errorf("limits %v, want %v", limits, c.limits)
			}
		})
	}
}

func TestWindowLimit(t *testing.T) {
	w := book.Window{Quota: 100, Headroom: 9}
	for _, c := range []struct {
		class book.Class
		want  int64
	}{
		{book.Class{}, 91},
		{book.Class{UseHeadroom: true}, 100},
		{book.Class{KeepFree: 11}, 80},
		{book.Class{KeepFreePercent: 30}, 63}, // 27.3 rounded up
		{book.Class{KeepFreePercent: 99}, 0},
	} {
		if got := w.Limit(c.class); got != c.want {
			t.Errorf("%+v: limit %d, want %d", c.class, got, c.want)
		}
	}
}

func TestBookNeedsBuiltinsToExtend(t *testing.T) {
	for _, o := range []*book.Options{nil, {}} {
		_, err := book.Parse("costs.yaml", []byte("extends: builtin"), o)
		if !errors.Is(err, book.ErrBadInput) || !strings.Contains(err.Error(), "no built-in price books are at hand") {
			t.Errorf("extends without built-in books: %v", err)
		}
	}
}

func TestErrorShowsTheColumn(t *testing.T) {
	e := &book.Error{File: "f", Line: 12, Column: 4, Message: "no", Source: "\té: x"}
	if got, want := e.Error(), "f:12:4: no\n   12 | \té: x\n      | \t  ^"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !errors.Is(e, book.ErrBadInput) {
		t.Error("is no ErrBadInput")
	}
}

// A book as large as it may be is read in reasonable time, and one that is
// larger is refused.
func TestBookSize(t *testing.T) {
	text := "revision: 1\n" + strings.Repeat("# a long comment\n", 1<<16)
	if _, err := book.Parse("costs.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a book of %d bytes: %v", len(text), err)
	}
	for _, open := range []string{"[", "{a: ", "a: [\n", "- "} { // of a megabyte of these the parser would die
		text := "revision: 1\nupstreams:\n  " + strings.Repeat(open, 3_000)
		if _, err := book.Parse("costs.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), "nested deeper than") {
			t.Errorf("a book nested by %q: %.200v", open, err)
		}
	}
	if _, err := book.Parse("costs.yaml", []byte("\ufeffrevision: 1\r\nupstreams: {}\r\n"), nil); err != nil {
		t.Errorf("a book with a byte order mark and DOS line ends: %v", err)
	}
}

func TestInFlight(t *testing.T) {
	const text = `revision: 1
upstreams:
  api:
    classes: {backfill: {keep_free: 30%}}
    pools:
      at_once: {windows: [{in_flight: 10}]}
      few: {windows: [{in_flight: 4, headroom: 1, ttl: 30s}]}
    methods: {get: {charge: {at_once: 1, few: 1}}}
`
	b, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	u := b.Upstreams["api"]
	w, few := u.Pools["at_once"].Windows[0], u.Pools["few"].Windows[0]
	if !w.InFlight() || w.Per != 2*time.Minute || w.Limit(book.Class{}) != 10 || w.Limit(u.Classes["backfill"]) != 7 {
		t.Errorf("at once: %+v", w)
	}
	if few.Per != 30*time.Second || few.Limit(book.Class{}) != 3 {
		t.Errorf("few: %+v", few)
	}
	again, err := book.Parse("costs.yaml", b.Format(), nil)
	if err != nil || !strings.Contains(string(b.Format()), "{in_flight: 10, ttl: 2m}") {
		t.Errorf("printed as\n%s\n%v", b.Format(), err)
	} else if err := again.Follows(b); err != nil {
		t.Error(err)
	}
}

// A class cannot have a larger share than what it leaves itself.
func TestAShareBesideKeepFree(t *testing.T) {
	text := "{revision: 1, upstreams: {a: {classes: {c: {keep_free: 80%%, share: %d%%}}, pools: {units: {quota: 100, windows: [{per: 1m}]}}, methods: {get: 1}}}}"
	if _, err := book.Parse("costs.yaml", fmt.Appendf(nil, text, 20), nil); err != nil {
		t.Error(err)
	}
	if _, err := book.Parse("costs.yaml", fmt.Appendf(nil, text, 21), nil); err == nil || !strings.Contains(err.Error(), `class "c" has a share of 21%, but keeps all except 20% free`) {
		t.Errorf("got %v", err)
	}
}
