package book_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

var update = flag.Bool("update", false, "rewrite golden files and the schema")

const costs = "../../testdata/costs"

// small has the built-in books that the broken ones in testdata extend.
func small(name string) ([]byte, bool) {
	name = strings.TrimPrefix(name, "builtin/")
	text, err := os.ReadFile(filepath.Join(costs, "builtin", name+".yaml"))
	return text, err == nil
}

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
		cmp.Comparer(func(a, b *time.Location) bool {
			return a == b || a != nil && b != nil && a.String() == b.String()
		}))
}

// Every broken book is named after its fault and refused with the message beside
// it, which names the file that the fault stands in.
func TestBrokenBooks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(costs, "*.yaml"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d broken books: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b, err := book.Parse("costs.yaml", text, &book.Options{Builtins: small})
			if err == nil || b != nil {
				t.Fatalf("accepted:\n%s", text)
			}
			var fault *book.Error
			if !errors.Is(err, book.ErrBadInput) || !errors.As(err, &fault) {
				t.Errorf("%v is no ErrBadInput or no book.Error", err)
			} else if fault.Line < 1 || fault.Column < 1 || fault.File == "" || fault.Message == "" {
				t.Errorf("%+v lacks its place", fault)
			}
			golden := filepath.Join(costs, name+".golden")
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

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
				Name: "units", Accounts: map[string][]book.Window{},
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

func TestBookRefusals(t *testing.T) {
	u := parse(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    api_key: {header: X-Api-Key, query: key}
    resumable: upload_id
    refusals:
      - {status: 401, credential: true}
      - {status: [403, 429], header: {x-ratelimit-remaining: 0}, until: x-ratelimit-reset}
      - {status: [403, 429], header: retry-after, for: 1m}
      - {status: 403, reason: [quotaExceeded, "true"], body: "\"1/d", until: reset}
    pools: {units: {quota: 100, windows: [{per: 24h}]}}
`)
	api := u.Upstreams["api"]
	if want := (book.APIKey{Header: "X-Api-Key", Query: "key"}); api.Key != want || api.Resumable != "upload_id" {
		t.Errorf("key %+v, resumable %q", api.Key, api.Resumable)
	}
	want := []book.Refusal{
		{Status: []int{401}, Credential: true},
		{Status: []int{403, 429}, Header: "x-ratelimit-remaining", Value: "0", Until: "x-ratelimit-reset"},
		{Status: []int{403, 429}, Header: "retry-after", For: time.Minute},
		{Status: []int{403}, Reason: []string{"quotaExceeded", "true"}, Body: []string{`"1/d`}, Until: book.UntilReset},
	}
	if diff := cmp.Diff(want, api.Refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	const format = `    api_key: {header: X-Api-Key, query: key}
    resumable: upload_id
    refusals:
      - {status: 401, credential: true}
      - {status: [403, 429], header: {x-ratelimit-remaining: "0"}, until: x-ratelimit-reset}
      - {status: [403, 429], header: retry-after, for: 1m}
      - {status: 403, reason: [quotaExceeded, "true"], body: "\"1/d", until: reset}
`
	if got := string(u.Format()); !strings.Contains(got, format) {
		t.Errorf("format lacks\n%s\nis\n%s", format, got)
	}
	roundTrip(t, u)
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

// A row is an overlay over testdata/costs/builtin/builtin.yaml and what it
// changes there.
func TestBookOverlay(t *testing.T) {
	base := parse(t, "extends: builtin")
	for _, c := range []struct {
		name, overlay string
		change        func(u *book.Upstream)
	}{
		{"nothing", `{}`, func(*book.Upstream) {}},
		{"a price", `{methods: {books.list: 5}}`, func(u *book.Upstream) {
			u.Methods["books.list"].Charges = map[string]int64{"units": 5}
		}},
		{"an outage policy", `{methods: {books.get: {outage: admit}}}`, func(u *book.Upstream) {
			u.Methods["books.get"].Outage = book.Admit
		}},
		{"another pool", `{methods: {books.list: {pool: scans}}}`, func(u *book.Upstream) {
			u.Methods["books.list"].Charges = map[string]int64{"scans": 1}
		}},
		{"a charge instead of a pool", `{methods: {books.list: {charge: {units: 1, scans: 2}}}}`, func(u *book.Upstream) {
			u.Methods["books.list"].Charges = map[string]int64{"units": 1, "scans": 2}
		}},
		{"a pool instead of a charge", `{methods: {books.scan: {pool: units, cost: 7}}}`, func(u *book.Upstream) {
			u.Methods["books.scan"].Charges = map[string]int64{"units": 7}
		}},
		{"one pool of a charge", `{methods: {books.scan: {charge: {units: 7}}}}`, func(u *book.Upstream) {
			u.Methods["books.scan"].Charges = map[string]int64{"units": 7, "scans": 1}
		}},
		{"a pool less in a charge", `{methods: {books.scan: {charge: {scans: null}}}}`, func(u *book.Upstream) {
			u.Methods["books.scan"].Charges = map[string]int64{"units": 50}
		}},
		{"a route less", `{methods: {books.get: {route: null}}}`, func(u *book.Upstream) {
			u.Methods["books.get"].Routes = nil
		}},
		{"a method less", `{methods: {books.scan: null}}`, func(u *book.Upstream) {
			delete(u.Methods, "books.scan")
		}},
		{"a method more", `{methods: {mine: {pool: units, cost: 2}}}`, func(u *book.Upstream) {
			u.Methods["mine"] = &book.Method{Name: "mine", Charges: map[string]int64{"units": 2}, Outage: book.Refuse}
		}},
		{"a quota", `{pools: {units: {quota: 5000}}}`, func(u *book.Upstream) {
			u.Pools["units"].Windows[0].Quota = 5000 // the guard has its own
		}},
		{"no headroom", `{pools: {units: {headroom: null}}}`, func(u *book.Upstream) {
			u.Pools["units"].Windows[0].Headroom = 0
		}},
		{"other windows", `{pools: {units: {windows: [{per: 1m, algorithm: log}]}}}`, func(u *book.Upstream) {
			u.Pools["units"].Windows = []book.Window{{Spec: window.Spec{Algorithm: window.Exact, Per: time.Minute}, Quota: 1000, Headroom: 100}}
		}},
		{"a pool less", `{pools: {scans: null}, methods: {books.scan: {pool: units, cost: 50}}}`, func(u *book.Upstream) {
			delete(u.Pools, "scans")
			u.Methods["books.scan"].Charges = map[string]int64{"units": 50}
		}},
		{"a class less", `{classes: {backfill: null}}`, func(u *book.Upstream) {
			delete(u.Classes, "backfill")
		}},
		{"another class", `{classes: {backfill: {keep_free: 0, use_headroom: true}}}`, func(u *book.Upstream) {
			u.Classes["backfill"] = book.Class{UseHeadroom: true}
		}},
		{"hosts", `{hosts: ["localhost:8080"]}`, func(u *book.Upstream) { u.Hosts = []string{"localhost:8080"} }},
		{"unpriced", `{unpriced: admit}`, func(u *book.Upstream) { u.Unpriced = book.Admit }},
		{"refusals", `{refusals: [{status: 503, for: 1m}]}`, func(u *book.Upstream) {
			u.Refusals = []book.Refusal{{Status: []int{503}, For: time.Minute}} // a list is replaced whole
		}},
		{"no refusals", `{refusals: null, api_key: null, resumable: null}`, func(u *book.Upstream) {
			u.Refusals, u.Key, u.Resumable = nil, book.APIKey{}, ""
		}},
		{"a key in another header", `{api_key: {header: X-Other}}`, func(u *book.Upstream) { u.Key.Header = "X-Other" }},
		{"a key that may be in the query", `{api_key: {query: null}}`, func(u *book.Upstream) { u.Key.Query = "" }},
		{"accounts", `{accounts: {a: {}}}`, func(u *book.Upstream) { u.Accounts = []string{"a"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parse(t, "extends: builtin\nupstreams: {books: "+c.overlay+"}")
			want := parse(t, "extends: builtin")
			c.change(want.Upstreams["books"])
			if diff := sameBook(want, got); diff != "" {
				t.Errorf("book (-want +got):\n%s", diff)
			}
			if changed := sameBook(base, got) != ""; changed == (c.name == "nothing") {
				t.Errorf("the overlay changed the book: %v", changed)
			}
			roundTrip(t, got)
		})
	}
	t.Run("a revision", func(t *testing.T) {
		if got := parse(t, "extends: builtin\nrevision: 9").Revision; base.Revision != 3 || got != 9 {
			t.Errorf("revisions %d and %d, want 3 inherited and 9", base.Revision, got)
		}
	})
	t.Run("an upstream less", func(t *testing.T) {
		b := parse(t, "extends: builtin\nupstreams: {books: null}")
		if len(b.Upstreams) != 0 {
			t.Errorf("upstreams %v, want none", b.Upstreams)
		}
		roundTrip(t, b)
	})
}

// roundTrip checks that what a book prints is read back as an equal book.
func roundTrip(t *testing.T, b *book.Book) {
	t.Helper()
	for name, text := range map[string][]byte{"Format": b.Format(), "Diff": b.Diff()} {
		again, err := book.Parse(name, text, &book.Options{Builtins: small})
		if err != nil {
			t.Errorf("%s is not read back: %v\n%s", name, err, text)
			continue
		}
		if diff := sameBook(b, again); diff != "" {
			t.Errorf("%s changes the book (-want +got):\n%s\n%s", name, diff, text)
		}
		if twice := map[string][]byte{"Format": again.Format(), "Diff": again.Diff()}[name]; string(twice) != string(text) {
			t.Errorf("%s of the book read back differs:\n%s\nbefore\n%s", name, twice, text)
		}
	}
}

func TestBookPrintsItself(t *testing.T) {
	for _, name := range []string{"builtin", "builtin/youtube-2025"} {
		b, err := book.Parse("costs.yaml", []byte("extends: "+name), &book.Options{Builtins: headroom.Builtin})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(b.Diff()), "extends: "+name+"\n"; got != want {
			t.Errorf("a book that changes nothing differs by:\n%s", got)
		}
		again, err := book.Parse("again", b.Format(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := sameBook(b, again); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBookFormat(t *testing.T) {
	b := parse(t, `{revision: 1, upstreams: {api: {
  hosts: [api.example.com], classes: {late: {keep_free: 5%, outage: admit}, m: {use_headroom: true}}, accounts: {a: {pools: {units: {quota: 7}}}, b: {}},
  pools: {units: {quota: 100, headroom: 5, windows: [{per: 90s}, {per: week, quota: 9}]}, other: {windows: [{per: 1h, algorithm: log, quota: 3}]}},
  methods: {b: {pool: units, cost: 1, source: "a # b"}, a: {charge: {units: 1, other: 0}, route: "GET /a/{id}:go"}, c: {charge: {units: 4}, route: [GET /c, POST /c]}}}},
  families: {client: {windows: [{per: 1m, quota: 5}], keys: {"no": {windows: [{per: 1m, quota: 9}]}}}}}`)
	const want = `revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    unpriced: refuse
    classes:
      late: {keep_free: 5%, outage: admit}
      m: {use_headroom: true}
    accounts:
      a: {pools: {units: {quota: 7, headroom: 5}}}
      b: {}
    pools:
      other:
        windows:
          - {per: 1h, quota: 3, algorithm: log}
      units:
        quota: 100
        headroom: 5
        windows:
          - {per: 1m30s, precision: 1s}
          - {per: week, quota: 9, zone: UTC, lag: 1m}
    methods:
      a: {route: "GET /a/{id}:go", charge: {other: 0, units: 1}, outage: refuse}
      b: {pool: units, cost: 1, outage: refuse, source: "a # b"}
      c: {route: [GET /c, POST /c], pool: units, cost: 4, outage: refuse}
families:
  client:
    windows:
      - {per: 1m, quota: 5, precision: 1s}
    max_keys: 100000
    keys:
      "no": {windows: [{per: 1m, quota: 9, precision: 1s}]}
`
	if diff := cmp.Diff(want, string(b.Format())); diff != "" {
		t.Errorf("format (-want +got):\n%s", diff)
	}
	roundTrip(t, b)
}

func TestBookDiff(t *testing.T) {
	b := parse(t, `
extends: builtin
upstreams:
  books:
    methods: {books.list: 5, books.get: {charge: {units: 2, scans: 1}}, books.scan: {pool: units, cost: 9}, mine: {pool: scans, cost: 1}}
    classes: {backfill: null}
    pools: {units: {quota: 5000}}
    accounts: {a: {}}
`)
	const want = `extends: builtin
upstreams:
  books:
    accounts:
      a: {}
    pools:
      units:
        quota: 5000
    methods:
      books.get: {charge: {scans: 1, units: 2}}
      books.list: {cost: 5}
      books.scan: {pool: units, cost: 9}
      mine: {pool: scans, cost: 1, outage: refuse}
    classes: null
`
	if diff := cmp.Diff(want, string(b.Diff())); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	roundTrip(t, b)
}

// Diff must also say it when the reading of a base depends on what is left out.
func TestBookDiffOfEverything(t *testing.T) {
	texts := []string{
		`{revision: 1, upstreams: {a: {accounts: {default: {}}, pools: {units: {quota: 5, windows: [{per: 1h}]}}, methods: {m: 1}}}}`,
		`{revision: 1, upstreams: {a: {accounts: {x: {pools: {units: {quota: 9}}}}, pools: {units: {quota: 5, headroom: 1, windows: [{per: 1h}]}}, methods: {m: {charge: {units: 2}}}}}}`,
		`{revision: 2, upstreams: {a: {classes: {c: {keep_free: 1}}, pools: {charge: {windows: [{per: 1h, quota: 5}]}, cost: {quota: 4, windows: [{per: 1m}]}}, methods: {m: {charge: {charge: 2, cost: 0}}}}}}`,
		`{revision: 2, upstreams: {a: {classes: {c: {use_headroom: true}}, pools: {charge: {quota: 3, windows: [{per: 1h}]}, pool: {quota: 4, windows: [{per: day}]}}, methods: {m: {charge: {charge: 2, pool: 1}}}}}}`,
		`{revision: 3, upstreams: {b: {pools: {units: {quota: 5, windows: [{per: 1h}]}}, methods: {m: 1}}}, families: {f: {quota: 3, windows: [{per: 1s}], keys: {k: 9}}}}`,
		`{revision: 3, families: {f: {quota: 3, windows: [{per: 1s}], max_keys: 7, keys: {k: {windows: [{per: 1m, quota: 8}]}, "no": 4, "true": 5, "~": 6, "null": 7, "1": 8, "1e3": 9, " ": 10, "a: b": 11, "#": 12, "5%": 13, "\"": 14, "\\": 15, ".inf": 16, "é": 17, "-": 18, "1h": 19, "2026-11-20": 20}}}}`,
		`{revision: 4, upstreams: {a: {pools: {outage: {quota: 3, windows: [{per: 1h}]}, pool: {quota: 4, windows: [{per: day}]}}}}}`,
		`{revision: 4, upstreams: {a: {pools: {outage: {quota: 3, windows: [{per: 1h}]}, charge: {quota: 4, windows: [{per: day}]}}}}}`,
		`{revision: 1}`,
	}
	for i, base := range texts {
		for j, text := range texts {
			builtins := func(string) ([]byte, bool) { return []byte(base), true }
			want := parse(t, text)
			over := book.Rebase(want, parse(t, base), "builtin")
			got, err := book.Parse("diff", over.Diff(), &book.Options{Builtins: builtins})
			if err != nil {
				t.Errorf("%d over %d: %v", j, i, err)
				continue
			}
			if diff := sameBook(want, got); diff != "" {
				t.Errorf("%d over %d (-want +got):\n%s\n%s", j, i, diff, over.Diff())
			}
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

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join(costs, "*.yaml"))
	more, _ := filepath.Glob(filepath.Join(costs, "builtin", "*.yaml"))
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{revision: 1, upstreams: {a: {hosts: ["[::1]:80"], pools: {u: {quota: 5, windows: [{per: 1h, quota: 3}]}}, methods: {m: {route: "GET /{a}:b", cost: 1, source: "é\u00a0"}}}}, families: {f: {quota: 1, windows: [{per: 1s}], keys: {'"': 5}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<13 {
			return // the parser below us is slow on text without end
		}
		b, err := book.Parse("costs.yaml", text, &book.Options{Builtins: small})
		if err != nil {
			if !errors.Is(err, book.ErrBadInput) || b != nil {
				t.Errorf("error %v with book %v", err, b)
			}
			return
		}
		roundTrip(t, b)
	})
}
