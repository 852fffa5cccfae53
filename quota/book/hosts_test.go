package book_test

import (
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
)

const hostBook = `
revision: 1
upstreams:
  shops:
    hosts: ["*.shops.example.com", "*.ports.example.com:8443"]
    account: {host: 1}
    accounts: any
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
  one:
    hosts: [one.shops.example.com]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
  tube:
    hosts: [www.example.com/tube/, www.example.com/upload/tube/]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods: {list: {route: GET /tube/v3/list, cost: 1}}
  beta:
    hosts: [www.example.com/tube/beta/]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
  rest:
    hosts: [rest.example.com]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
  part:
    hosts: [rest.example.com/part/, "rest.example.com:8443/port/"]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
`

func TestMatchPlace(t *testing.T) {
	b := parse(t, hostBook)
	for _, c := range []struct{ host, path, want, label string }{
		{"acme.shops.example.com", "/", "shops", "acme"},
		{"ACME.shops.example.com:443", "/", "shops", "acme"},
		{"acme.shops.example.com.", "/", "shops", "acme"},
		{"one.shops.example.com", "/", "one", "one"}, // a name wins over a *
		{"a.b.shops.example.com", "/", "", ""},       // a * is one label
		{".shops.example.com", "/", "", ""},
		{"shops.example.com", "/", "", ""},
		{"acmeshops.example.com", "/", "", ""},
		{"acme.shops.example.com.evil.net", "/", "", ""},
		{"acme.ports.example.com:8443", "/", "shops", "acme"},
		{"acme.ports.example.com:08443", "/", "shops", "acme"},
		{"acme.ports.example.com", "/", "", ""},

		{"www.example.com", "/tube/v3/list", "tube", "www"},
		{"www.example.com:443", "/upload/tube/v3/list", "tube", "www"},
		{"www.example.com", "/tube/beta/x", "beta", "www"}, // the longer path wins
		{"www.example.com", "/drive/v3/files", "", ""},
		{"www.example.com", "/", "", ""},
		{"www.example.com", "/tubes/v3/list", "", ""},
		{"www.example.com", "/drive/tube/", "", ""},
		// what a lenient server might take for it is metered, and has no price
		{"www.example.com", "/tube", "tube", "www"},
		{"www.example.com", "//tube/v3/list", "tube", "www"},
		{"www.example.com", "/x/../tube/v3/list", "tube", "www"},
		{"www.example.com", "/x/%2e%2e/tube/v3/list", "tube", "www"},
		{"www.example.com", "/%74ube/v3/list", "tube", "www"},
		{"www.example.com", "/%2574ube/v3/list", "tube", "www"},
		{"www.example.com", "/tube%2Fv3/list", "tube", "www"},
		{"www.example.com", "/tube%5Cv3/list", "tube", "www"},
		{"www.example.com", `/tube\v3/list`, "tube", "www"},
		{"www.example.com", "/tube;a=b/v3/list", "tube", "www"},
		{"www.example.com", "/Tube/v3/list", "tube", "www"},
		{"www.example.com", "/tube/../drive", "tube", "www"},
		{"www.example.com", "/./tube/beta/x", "beta", "www"},

		{"rest.example.com", "/x", "rest", "rest"},
		{"rest.example.com", "/part/x", "part", "rest"},
		{"rest.example.com", "//part/x", "part", "rest"},
		{"rest.example.com:8443", "/port/x", "part", "rest"},
		{"rest.example.com:8443", "/part/x", "part", "rest"},
		{"rest.example.com", "/port/x", "rest", "rest"},
	} {
		m := b.Match("GET", c.host, c.path)
		got := ""
		if m.Upstream != nil {
			got = m.Upstream.Name
		}
		if got != c.want || got != "" && m.Label(1) != c.label {
			t.Errorf("%s%s is %q with label %q, want %q with %q", c.host, c.path, got, m.Label(1), c.want, c.label)
		}
		if odd := c.path != "/tube/v3/list" && c.path != "/"; odd && m.Method != nil {
			t.Errorf("%s%s has the price of %s", c.host, c.path, m.Method.Name)
		}
	}
	for _, c := range []struct{ host, path string }{
		{"acme.shops.example.com", "/"}, {"www.example.com", "/tube/v3/list"}, {"www.example.com", "/drive/v3/files"}, {"a.b.example.com", "/x"},
	} {
		if n := testing.AllocsPerRun(100, func() { b.Match("GET", c.host, c.path) }); n > 0 {
			t.Errorf("%s%s: %v allocations, want 0", c.host, c.path, n)
		}
	}
}

const tailBook = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods:
      files: {route: "GET /files/{path...}", cost: 1}
      files.any: {route: "* /files/{path...}", cost: 2}
      dir: {route: "GET /files/{id}", cost: 3}
      special: {route: GET /files/special/list, cost: 4}
      special.any: {route: "* /files/special", cost: 5}
      search: {route: GET /search, cost: 100}
      repo: {route: "GET /repos/{owner}/{repo}/contents/{path...}", cost: 7}
      stats: {route: "GET /repos/{owner}/{repo}:stats", cost: 8}
      any: {route: "* /graphql", cost: 9}
      both: {route: ["GET /both/{id}", "GET /both/{path...}"], cost: 1}
      models.get: {route: ["GET /models/{id}", "GET /models/{owner}/{id}"], cost: 1}
  set:
    hosts: [set.example.com]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods:
      search: {route: GET /search, cost: 100}
      item: {route: "GET /items/{id}", cost: 1}
    default: {GET: 1, "*": 5}
`

func TestMatchTailsVerbsAndDefaults(t *testing.T) {
	b := parse(t, tailBook)
	for _, c := range []struct{ host, verb, path, want string }{
		{"api", "GET", "/files/a/b", "files"},
		{"api", "GET", "/files/a/b:c", "files"},
		{"api", "GET", "/files/a", "dir"},     // a {name} wins over a tail
		{"api", "GET", "/files/a:b", "files"}, // which has no colon
		{"api", "POST", "/files/a/b", "files.any"},
		{"api", "POST", "/files/a", "files.any"},
		{"api", "GET", "/files/special/list", "special"},
		{"api", "POST", "/files/special/list", "files.any"},
		{"api", "GET", "/files/special", "special.any"}, // a literal wins, whatever its verb
		{"api", "GET", "/files/a/b/", "files"},          // nothing else, for a lenient server
		{"api", "GET", "/files/a%2Fb", ""},              // a {name}, or a tail
		{"api", "GET", "/files/x/a%2Fb", "files"},
		{"api", "GET", "/models/a%2Fb", "models.get"}, // the same method either way
		{"api", "GET", "/models/a/b", "models.get"},
		{"api", "GET", "/models/a%2Fb%2Fc", ""},
		{"api", "GET", "/both/a%2Fb", "both"},
		{"api", "GET", "/both/..%2Fsearch", ""},
		{"api", "GET", "/models/..%2Fb", ""},
		{"api", "GET", "/models/a%2F..%2Fb", ""},
		{"api", "GET", "/files/special%2Flist", ""},
		{"api", "GET", "/files/special/list/", ""},
		{"api", "GET", "/files/a/../special/list", ""},
		{"api", "GET", "/files/../search", ""},
		{"api", "GET", "/files/%252e%252e/search", ""},
		{"api", "GET", "/files", ""},
		{"api", "GET", "/files/", "files"}, // an empty tail
		{"api", "GET", "/files//", ""},
		{"api", "get", "/files/a/b", ""},
		{"api", "GET", "/search", "search"},
		{"api", "POST", "/search", ""},
		{"api", "BREW", "/graphql", "any"},
		{"api", "brew", "/graphql", ""},
		{"api", "*", "/graphql", ""},
		{"api", "GET", "/repos/o/r:stats", "stats"},

		{"set", "GET", "/anything", "GET default"},
		{"set", "GET", "/", "GET default"},
		{"set", "", "/anything", "GET default"},
		{"set", "POST", "/anything", "* default"},
		{"set", "POST", "/search", "* default"},
		{"set", "GET", "/search", "search"},
		{"set", "GET", "/search/", ""},
		{"set", "GET", "//search", ""},
		{"set", "GET", "/%73earch", ""},
		{"set", "GET", "/search;x=1", ""},
		{"set", "GET", "/items/a%2F..%2F..%2Fsearch", ""},
		{"set", "GET", "/branches/a%2Fb", "GET default"},
		{"set", "GET", "/x/y/", "GET default"},
		{"set", "GET", "/items/7/", ""},
		{"set", "get", "/search", ""},
		{"set", "GET", "anything", ""},
	} {
		got := ""
		if m := b.Match(c.verb, c.host+".example.com", c.path).Method; m != nil {
			got = m.Name
		}
		if got != c.want {
			t.Errorf("%s %s%s is %q, want %q", c.verb, c.host, c.path, got, c.want)
		}
	}
	if m := b.Upstreams["set"].Default["*"]; m.Charges["units"] != 5 || len(b.Upstreams["set"].Methods) != 2 {
		t.Errorf("the default is %+v", m)
	}
}

func TestMatchGivesTheNamesOfARoute(t *testing.T) {
	b := parse(t, tailBook)
	m := b.Match("GET", "api.example.com", "/repos/a%20b/r/contents/x/y%2Fz")
	for name, want := range map[string]string{"owner": "a b", "repo": "r", "path": "x/y/z", "contents": "", "none": ""} {
		if got, has := m.Segment(name); got != want || has != (want != "") {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	m = b.Match("GET", "api.example.com", "/repos/o/r:stats")
	if got, _ := m.Segment("repo"); got != "r" {
		t.Errorf("repo is %q", got)
	}
	m = b.Match("GET", "api.example.com", "/search")
	if _, has := m.Segment("search"); has {
		t.Error("a literal has a name")
	}
	m = b.Match("GET", "set.example.com", "/x")
	if _, has := m.Segment("x"); has {
		t.Error("a default has names")
	}
	if n := testing.AllocsPerRun(100, func() { b.Match("GET", "api.example.com", "/repos/o/r/contents/x/y") }); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAnyAccount(t *testing.T) {
	for _, c := range []struct {
		text     string
		accounts int
		any      bool
		most     int
	}{
		{"accounts: any", 1, true, 10_000},
		{`accounts: {"*": {}, a: {}, b: {pools: {units: {quota: 5}}}}`, 2, true, 10_000},
		{"accounts: any\n    max_accounts: 7", 1, true, 7},
		{"accounts: {a: {}}", 1, false, 0},
	} {
		u := parse(t, "revision: 1\nupstreams:\n  api:\n    pools: {units: {quota: 10, windows: [{per: 24h}]}}\n    "+c.text).Upstreams["api"]
		if len(u.Accounts) != c.accounts || u.AnyAccount != c.any || u.MaxAccounts != c.most {
			t.Errorf("%s: accounts %q, any %v, at most %d", c.text, u.Accounts, u.AnyAccount, u.MaxAccounts)
		}
	}
}

func TestMayRedirect(t *testing.T) {
	u := book.Upstream{Redirects: []string{"files.example.net", "*.cdn.example.net"}}
	for host, want := range map[string]bool{
		"files.example.net": true, "FILES.example.net:443": true, "a.cdn.example.net": true,
		"cdn.example.net": false, "a.b.cdn.example.net": false, "files.example.net.evil.org": false, "": false,
	} {
		if u.MayRedirect(host) != want {
			t.Errorf("%s: %v, want %v", host, !want, want)
		}
	}
}
