package book_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
)

// roundTrip checks that what a book prints is read back as an equal book, and that its
// structs make one.
func roundTrip(t *testing.T, b *book.Book) {
	t.Helper()
	madeAgain(t, b)
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
	for _, name := range headroom.ListBuiltin() {
		b, err := book.Parse("costs.yaml", []byte("extends: "+name), &book.Options{Builtins: headroom.ReadBuiltin})
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
