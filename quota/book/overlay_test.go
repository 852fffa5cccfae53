package book_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// A row is an overlay over builtin.yaml in testdata/costs/builtin.txtar and what it
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
			u.Refusals = []book.Refusal{{Condition: book.Condition{Status: []int{503}}, For: time.Minute}} // a list is replaced whole
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
