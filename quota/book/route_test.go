package book_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
)

const routeBook = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com, "api.example.org:8443", "127.0.0.1:9999", "[::1]:9999"]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods:
      root: {route: GET /, cost: 1}
      list: {route: GET /v1/items, cost: 1}
      stats: {route: "GET /v1/items:stats", cost: 1}
      get: {route: "GET /v1/items/{id}", cost: 1}
      mine: {route: GET /v1/items/mine, cost: 1}
      purge: {route: "POST /v1/items/{id}:purge", cost: 500}
      purge.all: {route: "POST /v1/items/all:purge", cost: 900}
      create: {route: [POST /v1/items, POST /upload/v1/items], cost: 50}
      parts: {route: "GET /v1/items/{id}/parts", cost: 1}
      mine.other: {route: "GET /v1/items/mine/other", cost: 1}
      part: {route: "GET /v1/items/{id}/parts/{part}", cost: 1}
  other:
    hosts: ["api.example.com:8443"]
    unpriced: admit
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods: {other: {route: GET /v1/items, cost: 1}}
`

func TestMatchPath(t *testing.T) {
	b := parse(t, routeBook)
	for _, c := range []struct{ verb, path, want string }{
		{"GET", "/v1/items", "list"},
		{"", "/v1/items", "list"}, // net/http: an empty verb is GET
		{"GET", "/", "root"},
		{"GET", "/v1/items:stats", "stats"},
		{"GET", "/v1/items/7", "get"},
		{"GET", "/v1/items/mine", "mine"}, // a literal wins
		{"GET", "/v1/items/mine2", "get"},
		{"GET", "/v1/items/mine/other", "mine.other"},
		{"GET", "/v1/items/mine/parts", "parts"}, // the literal led nowhere
		{"GET", "/v1/items/a/parts/b", "part"},
		{"POST", "/v1/items", "create"},
		{"POST", "/upload/v1/items", "create"},
		{"POST", "/v1/items/7:purge", "purge"},
		{"POST", "/v1/items/all:purge", "purge.all"},
		{"GET", "/v1/items/a%20b", "get"}, // escaped data is data
		{"GET", "/v1/items/a%3Apurge", "get"},
		{"GET", "/v1/items/a=b;c,d@e!$&'()*+", "get"},
		{"GET", "/v1/items/...x", "get"},

		// A request that does not match a route exactly has no price.
		{"GET", "", ""},
		{"GET", "v1/items", ""},
		{"GET", "/v1/items/", ""},
		{"GET", "/v1//items", ""},
		{"GET", "//v1/items", ""},
		{"GET", "//", ""},
		{"GET", "/v1/./items", ""},
		{"GET", "/v1/items/.", ""},
		{"GET", "/v1/items/..", ""},
		{"GET", "/v1/items/%2e%2e", ""},
		{"GET", "/v1/items/.%2E", ""},
		{"GET", "/v1/items/../items", ""},
		{"GET", "/v1%2Fitems", ""},
		{"GET", "/v1/items/a%2Fparts", ""},
		{"GET", "/v1/items/a%2fparts", ""},
		{"GET", "/v1/items/a%5Cparts", ""},
		{"GET", `/v1/items/a\parts`, ""},
		{"GET", "/v1/items/a%252Fparts", ""}, // a server may unescape twice
		{"GET", "/v1/items/a%00", ""},
		{"GET", "/v1/items/a%", ""},
		{"GET", "/v1/items/a%2", ""},
		{"GET", "/v1/items/a%zz", ""},
		{"GET", "/v1/items/a b", ""},
		{"GET", "/v1/items/é", ""},
		{"GET", "/v1/items/a?b", ""},
		{"GET", "/v1/items?b", ""},
		{"GET", "/v1/items#b", ""},
		{"GET", "/v1/items;a=b", ""},
		{"GET", "/v1/%69tems", ""},
		{"GET", "/V1/items", ""},
		{"GET", "/v1/Items", ""},
		{"GET", "/v1/items/7:purge", ""}, // another verb's, not get's
		{"POST", "/v1/items/7:burn", ""},
		{"POST", "/v1/items/:purge", ""},
		{"POST", "/v1/items/7:purge:purge", ""},
		{"POST", "/v1/items/7", ""},
		{"GET", "/v1/items/7/parts/", ""},
		{"GET", "/v1/items//parts", ""},
		{"get", "/v1/items", ""},
		{"HEAD", "/v1/items", ""},
		{"GET ", "/v1/items", ""},
		{"DELETE", "/v1/items/7", ""},
		{"GET", "/v1", ""},
		{"GET", "/v2/items", ""},
		{"GET", "/v1/items/{id}", ""},
	} {
		m := b.Match(c.verb, "api.example.com", c.path)
		got := ""
		if m.Method != nil {
			got = m.Method.Name
		}
		if m.Upstream == nil || m.Upstream.Name != "api" || got != c.want {
			t.Errorf("%s %q is %q, want %q", c.verb, c.path, got, c.want)
		}
	}
}

func TestMatchHost(t *testing.T) {
	b := parse(t, routeBook)
	for _, c := range []struct{ host, want string }{
		{"api.example.com", "api"},
		{"API.Example.COM", "api"},
		{"api.example.com.", "api"},
		{"api.example.com:443", "api"}, // listed without a port: any
		{"api.example.com.:443", "api"},
		{"api.example.com:8443", "other"}, // listed with it: that one
		{"api.example.com.:8443", "other"},
		{"api.example.org:8443", "api"},
		{"api.example.org:008443", "api"},
		{"127.0.0.1:9999", "api"},
		{"[::1]:9999", "api"},
		{"[0:0:0:0:0:0:0:1]:9999", "api"}, // the same address
		{"[::0001]:9999", "api"},
		{"[::1%lo]:9999", "api"},
		{"[::ffff:127.0.0.1]:9999", "api"},
		{"[::FFFF:7f00:1]:9999", "api"},
		{"[0:0:0:0:0:0:0:1]", ""},
		{"[::2]:9999", ""},
		{"[::1", ""},
		{"api.example.org", ""},
		{"api.example.org:443", ""},
		{"127.0.0.1", ""},
		{"[::1]", ""},
		{"::1:9999", ""},
		{"evil-api.example.com", ""},
		{"api.example.com.evil.org", ""},
		{"example.com", ""},
		{"", ""},
		{":", ""},
		{".", ""},
	} {
		got := ""
		if u := b.Match("GET", c.host, "/v1/items").Upstream; u != nil {
			got = u.Name
		}
		if got != c.want {
			t.Errorf("host %q is %q, want %q", c.host, got, c.want)
		}
	}
	if m := (&book.Book{}).Match("GET", "api.example.com", "/"); m != (book.Match{}) {
		t.Errorf("an empty book matches %v", m)
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	b := parse(t, routeBook)
	for _, path := range []string{"/v1/items", "/v1/items/mine/parts", "/v1/items/abc/parts/def", "/none/of/them"} {
		for _, host := range []string{"api.example.com", "[::1]:9999", "elsewhere.example.com"} {
			if n := testing.AllocsPerRun(100, func() { b.Match("GET", host, path) }); n > 0 {
				t.Errorf("GET %s%s: %v allocations, want 0", host, path, n)
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { b.Match("GET", "API.example.com:443", "/v1/items") }); n > 1 {
		t.Errorf("a host to be lowered and cut: %v allocations, want at most 1", n)
	}
}

// slowMatch is the obvious way to match: all routes, one segment after the other.
func slowMatch(u *book.Upstream, verb, path string) (*book.Method, int) {
	var best *book.Method
	var bestRank []int
	matches := 0
	for _, m := range u.Methods {
		for _, r := range m.Routes {
			if rank, ok := slowRoute(r, verb, path); ok {
				matches++
				if best == nil || less(rank, bestRank) {
					best, bestRank = m, rank
				}
			}
		}
	}
	return best, matches
}

func less(a, b []int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// slowRoute ranks each segment: 0 literal, 1 {name}:verb, 2 {name}.
func slowRoute(r book.Route, verb, path string) ([]int, bool) {
	if verb == "" {
		verb = "GET"
	}
	want, got := strings.Split(r.Path, "/"), strings.Split(path, "/")
	if r.Verb != verb || len(want) != len(got) {
		return nil, false
	}
	rank := make([]int, len(want))
	for i, w := range want {
		_, after, template := strings.Cut(w, "}")
		switch {
		case !template && w == got[i]:
		case !template:
			return nil, false
		case after != "" && strings.Count(got[i], ":") == 1 && strings.HasSuffix(got[i], after) && isData(strings.TrimSuffix(got[i], after)):
			rank[i] = 1
		case after == "" && isData(got[i]):
			rank[i] = 2
		default:
			return nil, false
		}
	}
	return rank, true
}

// isData says whether every server takes an escaped segment for one piece of data.
func isData(s string) bool {
	plain, err := url.PathUnescape(s)
	return err == nil && s != "" && strings.Trim(plain, ".") != "" && !strings.ContainsAny(plain, "/\\%") &&
		!strings.ContainsFunc(plain, func(r rune) bool { return r < ' ' }) &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=@%") == ""
}

func FuzzMatch(f *testing.F) {
	b, err := book.Parse("routes", []byte(routeBook), nil)
	if err != nil {
		f.Fatal(err)
	}
	api := b.Upstreams["api"]
	for _, m := range api.Methods {
		for _, r := range m.Routes {
			f.Add(r.Verb, "api.example.com", strings.NewReplacer("{", "", "}", "").Replace(r.Path))
		}
	}
	for _, path := range []string{"/v1//items", "/v1/items/..", "/v1/items/a%2Fb", "/v1/items/%2e", "/v1/items/a:b:c", "/v1/items/all:purge", "/v1/items/mine/parts/x"} {
		f.Add("GET", "API.example.com:443", path)
		f.Add("POST", "api.example.com.", path)
	}
	f.Add("GET", "[::1", "/")
	f.Fuzz(func(t *testing.T, verb, host, path string) {
		b.Match(verb, host, path)
		got := b.Match(verb, "api.example.com", path)
		want, _ := slowMatch(api, verb, path)
		if got.Upstream != api || got.Method != want {
			t.Errorf("%s %q: %s, want %s", verb, path, name(got.Method), name(want))
		}
	})
}

func name(m *book.Method) string {
	if m == nil {
		return "no method"
	}
	return m.Name
}

func BenchmarkMatch(b *testing.B) {
	costs, err := book.Parse("routes", []byte(routeBook), nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{"/v1/items", "/v1/items/abc/parts/def"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				costs.Match("GET", "api.example.com", path)
			}
		})
	}
}

func ExampleBook_Match() {
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  books:
    hosts: [books.example.com]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods:
      volumes.get: {route: "GET /v1/volumes/{id}", cost: 2}
`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := b.Match("GET", "books.example.com:443", "/v1/volumes/abc")
	fmt.Println(m.Method.Name, m.Method.Charges["units"])
	fmt.Println(b.Match("GET", "books.example.com", "/v1/volumes/").Method == nil) // metered, but unpriced
	fmt.Println(b.Match("GET", "example.com", "/").Upstream == nil)                // not metered
	// Output:
	// volumes.get 2
	// true
	// true
}
