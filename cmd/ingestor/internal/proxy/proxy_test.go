package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

func TestCall(t *testing.T) {
	r := newRig(t, rigOptions{})
	got := r.send(r.request("POST", "/api/v1/items?b=2&key=theirs&a=1&access_token=theirs&k%65y=theirs&x=%30"+theToken[1:], strings.NewReader(`{"x":1}`),
		"Headroom-Job", "nightly", "Headroom-Region", "DE", "Headroom-Class", "manual", "Headroom-Wait", "1s",
		"Cookie", "session=theirs", "Authorization", "Bearer theirs", "Proxy-Authorization", "Basic theirs", "X-Forwarded-For", "10.0.0.1",
		"Referer", "http://127.0.0.1/page", "Connection", "X-Hop", "X-Hop", "theirs", "Content-Type", "application/json", "X-Own", "kept"))
	if got.StatusCode != http.StatusOK || got.body != "{}" {
		t.Fatalf("%s %s", got.Status, got.body)
	}
	sent := r.seen()
	if sent.Method != "POST" || sent.URL.String() != "/v1/items?b=2&a=1" || r.body != `{"x":1}` || "http://"+sent.Host != r.upstream.URL {
		t.Errorf("the upstream got %s %s to %s with %q", sent.Method, sent.URL, sent.Host, r.body)
	}
	if got := sent.Header["X-Api-Key"]; !slices.Equal(got, []string{"Bearer " + theKey}) || sent.Header.Get("X-Own") != "kept" {
		t.Errorf("the upstream got %q", sent.Header)
	}
	for name, values := range sent.Header {
		if strings.HasPrefix(name, "Headroom-") || strings.Contains(strings.Join(values, " "), "theirs") || strings.Contains(strings.Join(values, " "), theToken) ||
			slices.Contains([]string{"Cookie", "Referer", "X-Forwarded-For", "Authorization"}, name) {
			t.Errorf("the upstream got the header %s: %q", name, values)
		}
	}
	all, err := r.ledger.View().Spend(t.Context(), quota.SpendQuery{})
	if want := (quota.Labels{Method: "post", Job: "etl/nightly", Region: "DE", Class: "manual"}); err != nil || len(all) != 1 || all[0].Labels != want {
		t.Errorf("the spend is %+v %v", all, err)
	}
}

func TestDefaultLabels(t *testing.T) {
	r := newRig(t, rigOptions{change: func(o *Options) { o.Defaults = Labels{Job: "night", Account: "team"} }})
	r.call("GET", "/api/v1/items")
	if key := r.seen().Header.Get("X-Api-Key"); key != "Bearer key-of-the-team" || r.spent("etl/night") != 2 {
		t.Errorf("the key is %q, and %d units are for the job", key, r.spent("etl/night"))
	}
	if r.call("GET", "/api/v1/items", "Headroom-Job", "day", "Headroom-Account", "default"); r.spent("etl/day") != 2 {
		t.Error("the header does not win")
	}
}

// TestTokenPlaces: a program sends the token wherever its SDK puts a key.
func TestTokenPlaces(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, test := range []struct {
		header, value, query string
		status               int
	}{
		{"X-Api-Key", theToken, "", 200},
		{"Authorization", "Bearer " + theToken, "", 200},
		{"Authorization", "token " + theToken, "", 200},
		{"Authorization", "Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==", "", 200},
		{"Headroom-Token", theToken, "", 200},
		{"", "", "?key=" + theToken, 200},
		{"", "", "", 401},
		{"X-Api-Key", theToken[1:], "", 401},
		{"X-Other", theToken, "", 401},
	} {
		req := r.request("GET", "/api/v1/items"+test.query, nil)
		req.Header.Del("X-Api-Key")
		if test.header != "" {
			req.Header.Set(test.header, test.value)
		}
		if got := r.send(req); got.StatusCode != test.status {
			t.Errorf("%s %s %s: %s %s", test.header, test.value, test.query, got.Status, got.body)
		}
		if sent := r.seen(); (sent != nil) != (test.status == 200) || sent != nil && (strings.Contains(sent.URL.String(), theToken) || sent.Header.Get("X-Api-Key") != "Bearer "+theKey) {
			t.Errorf("%s %s: the upstream got %v", test.header, test.query, sent)
		}
	}
}

// TestOwnKey: if the price book says so, the key of the program is passed on.
func TestOwnKey(t *testing.T) {
	r := newRig(t, rigOptions{})
	req := r.request("GET", "/own/v1/items", nil, "Authorization", "Bearer theirs", "Headroom-Token", theToken)
	if got := r.send(req); got.StatusCode != http.StatusOK || r.seen().Header.Get("Authorization") != "Bearer theirs" {
		t.Errorf("%s %s", got.Status, got.body)
	}
	if got := r.call("GET", "/own/v1/items", "Authorization", "Bearer "+theToken); got.StatusCode != http.StatusUnauthorized || r.seen() != nil {
		t.Errorf("a token in place of the key: %s", got.Status)
	}
}

func TestGrants(t *testing.T) {
	r := newRig(t, rigOptions{grants: []Grant{{Upstreams: []string{"api", "shop"}, Methods: []string{"list"}}}})
	for _, test := range []struct {
		path   string
		header []string
		status int
	}{
		{"/api/v1/items", nil, 200},
		{"/api/v1/items", []string{"Headroom-Account", "default"}, 200},
		{"/api/v1/items/7", nil, 403},                                                 // another method
		{"/api/other", nil, 400},                                                      // one without a price of its own
		{"/own/v1/items", []string{"Headroom-Token", theToken}, 403},                  // another upstream
		{"/api/v1/items", []string{"Headroom-Class", "manual"}, 403},                  // a class
		{"/api/v1/items", []string{"Headroom-Account", "team"}, 403},                  // another account
		{"/shop@mine.shop.test/admin/items", []string{"X-Shop-Token", theToken}, 403}, // which the host names
		{"/nothing/v1/items", []string{"Headroom-Token", theToken}, 404},
		{"/api/v1/items", []string{"Headroom-Wait", "soon"}, 400},
		{"/api/v1/items", []string{"Headroom-Job", "a", "Headroom-Job", "b"}, 400},
		{"/api/v1/items", []string{"Headroom-Job", strings.Repeat("a", 2000)}, 400},
	} {
		if got := r.call("GET", test.path, test.header...); got.StatusCode != test.status {
			t.Errorf("%s %q: %s %s", test.path, test.header, got.Status, got.body)
		}
		if sent := r.seen(); (sent != nil) != (test.status == 200) {
			t.Errorf("%s %q reached the upstream: %v", test.path, test.header, sent != nil)
		}
	}
	r.handler.Update(tokensOf(t, Grant{Upstreams: []string{"api", "own"}, Methods: []string{"list"}}))
	for path, want := range map[string]string{"/api/v1/items/7": `method \"get\"`, "/own/v1/other": `method \"GET /v1/other\"`} {
		if got := r.call("GET", path, "Headroom-Token", theToken); got.StatusCode != http.StatusForbidden || !strings.Contains(got.body, want) {
			t.Errorf("%s: %s %s, want %s", path, got.Status, got.body, want)
		}
	}
	for _, bad := range []Grant{
		{},
		{Upstreams: []string{"quux"}},
		{Upstreams: []string{"api"}, Methods: []string{"quux"}},
		{Upstreams: []string{"api"}, Classes: []string{"quux"}},
		{Upstreams: []string{"api"}, Accounts: []string{"quux"}},
	} {
		if err := Check(tokensOf(t, bad), r.ledger.Book()); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
	r.handler.Update(tokensOf(t, Grant{Upstreams: []string{"own"}}))
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusForbidden {
		t.Errorf("after the grant is gone: %s", got.Status)
	}
}

// TestForeignPages: a page in the operator's browser cannot spend, though it may know the
// address of the proxy, and even if it had the token.
func TestForeignPages(t *testing.T) {
	r := newRig(t, rigOptions{change: func(o *Options) { o.Hosts = []string{"proxy.test"} }})
	port := r.server.URL[strings.LastIndexByte(r.server.URL, ':'):]
	for _, test := range []struct {
		header []string
		status int
	}{
		{nil, 200},
		{[]string{"Host", "localhost" + port}, 200},
		{[]string{"Host", "proxy.test:443"}, 200},
		{[]string{"Host", "rebound.test"}, 421},
		{[]string{"Host", "localhost.rebound.test"}, 421},
		{[]string{"Host", "localhost:@rebound.test"}, 400}, // of net/http
		{[]string{"Origin", "http://rebound.test"}, 403},
		{[]string{"Origin", "http://localhost:3000"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Origin", r.server.URL}, 200},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "none"}, 200},
	} {
		got := r.call("GET", "/api/v1/items", test.header...)
		if sent := r.seen(); got.StatusCode != test.status && (test.status != 400 || got.StatusCode != 421) || (sent != nil) != (test.status == 200) {
			t.Errorf("%q: %s, sent %v", test.header, got.Status, sent != nil)
		}
		if got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %q", test.header, got.Header)
		}
	}
	if got := r.call("OPTIONS", "/api/v1/items", "Origin", "http://rebound.test", "Access-Control-Request-Method", "GET"); got.StatusCode != http.StatusForbidden || r.seen() != nil {
		t.Errorf("a preflight: %s", got.Status)
	}
	if calls := r.turnedAway("cross_site"); calls != 7 {
		t.Errorf("%d calls are counted, want the 7 with status 403", calls)
	}
}

// TestOnlyListedMethodsGetTheKey: a call that only the default of the book prices is not sent.
// Without a key its answer would tell of another client's limits.
func TestOnlyListedMethodsGetTheKey(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, path := range []string{"/api/v1/other", "/api/", "/api/v1/items/1/2"} {
		if got := r.call("GET", path); got.StatusCode != http.StatusBadRequest || r.seen() != nil || !strings.Contains(got.body, "unpriced") {
			t.Errorf("%s: %s %s", path, got.Status, got.body)
		}
	}
	if spent := r.spent("etl"); spent != 0 {
		t.Errorf("%d units are spent", spent)
	}
	if got := r.call("DELETE", "/own/v1/items", "Headroom-Token", theToken); got.StatusCode != http.StatusBadRequest || r.seen() != nil {
		t.Errorf("a call without a price: %s %s", got.Status, got.body)
	}
}

// TestNoKeyNoCall: without a key for an upstream, its calls are not sent and cost nothing.
func TestNoKeyNoCall(t *testing.T) {
	r := newRig(t, rigOptions{change: func(o *Options) { o.Keys = nil }})
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusBadGateway || r.seen() != nil || !strings.Contains(got.body, "credential") {
		t.Errorf("%s %s", got.Status, got.body)
	}
	if spent := r.spent("etl"); spent != 0 {
		t.Errorf("%d units are spent", spent)
	}
}

// TestNoKeyAfterAReload: a new price book may want a key that the proxy was started without.
func TestNoKeyAfterAReload(t *testing.T) {
	r := newRig(t, rigOptions{})
	next, err := book.Parse("costs.yaml", []byte(strings.Replace(string(r.ledger.Book().Format()), "pass: true", "pass: false", 1)), nil)
	if err == nil {
		err = r.ledger.SetBook(next)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := r.call("GET", "/own/v1/items", "Headroom-Token", theToken); got.StatusCode != http.StatusBadGateway || got.Header.Get("Headroom-Refused") != "credential" || r.seen() != nil {
		t.Errorf("%s %s", got.Status, got.body)
	}
}

// refusesPath sends a path as it is, and checks that it is refused for what is wrong with it:
// most of them have no price either.
func (r *rig) refusesPath(path string, status int, kind string) {
	r.t.Helper()
	req := r.request("GET", "/", nil, "Headroom-Token", theToken)
	req.URL.Opaque = path
	if got := r.send(req); got.StatusCode != status || got.Header.Get("Headroom-Refused") != kind || r.seen() != nil {
		r.t.Errorf("%s: %s %s", path, got.Status, got.body)
	}
}

// TestPaths: only clean paths to hosts of the price book are passed on.
func TestPaths(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, path := range []string{
		"/api//v1/items", "/api/v1//items", "/api/v1/../v1/items", "/api/./v1/items", "/api/v1/%2e%2e/items", "/api/v1/%2E/items", "/api@localhost:1/../v1/items",
		"/api/v1/items/%2e%2e", "/api/v1/items/..;x", "/api/v1/items/a%2f..%2fb", "/api/v1/items/a%2f%2fb", "/api/v1/items/a%2f", "/api/v1/items/a%5cb", "/api/v1/items/a%252fb", "/api/v1/items/a%2561",
		"/api/v1/items/a%00b", "/api/v1/items/a%7fb", "/api/v1/items/a%0ab", `/api/v1/items/a\b`,
	} {
		r.refusesPath(path, http.StatusBadRequest, "request")
	}
	for _, path := range []string{
		"/api", "/api@/v1/items", "/api@evil.test/v1/items", "/api@localhost:2/v1/items",
		"/api@other.test:8443/v1/items", "/api@OTHER.test/v1/items", "/api@user@other.test/v1/items", "/shop@evil.test/admin/items",
		"/shop@a.b.shop.test/admin/items", "/shop@.shop.test/admin/items", "/shop@x.shop.test:1/admin/items", "/shop@x.shop.test/other", "/shop/admin/items",
	} {
		r.refusesPath(path, http.StatusNotFound, "unknown")
	}
	r.refusesPath("/api/v1/items/a%2fb", http.StatusBadRequest, "unpriced")
	r.refusesPath("/api@other.test%2fx/v1/items", http.StatusNotFound, "unknown")
	req := r.request("GET", "/", nil, "Headroom-Token", theToken)
	req.URL.Opaque = "http://other.test/v1/items" // as to a forward proxy
	req.Host = strings.TrimPrefix(r.server.URL, "http://")
	if got := r.send(req); got.StatusCode != http.StatusBadRequest && got.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a whole URL: %s", got.Status)
	}
}

// TestHosts: a program may name another host of the upstream, and the account that is a
// label of it.
func TestHosts(t *testing.T) {
	var hosts, keys []string
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		hosts, keys = append(hosts, req.URL.Scheme+"://"+req.URL.Host), append(keys, req.Header.Get("X-Shop-Token"))
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	})
	r := newRig(t, rigOptions{change: func(o *Options) { o.Base = base }})
	for _, test := range []struct{ path, account string }{
		{"/api@other.test/v1/items", ""}, {"/shop@mine.shop.test/admin/items", ""}, {"/shop/admin/items", "mine"},
	} {
		header := []string{"Headroom-Token", theToken}
		if test.account != "" {
			header = append(header, "Headroom-Account", test.account)
		}
		if got := r.call("GET", test.path, header...); got.StatusCode != 200 {
			t.Errorf("%s: %s %s", test.path, got.Status, got.body)
		}
	}
	if want := []string{"https://other.test", "https://mine.shop.test", "https://mine.shop.test"}; !slices.Equal(hosts, want) || keys[2] != "key-of-shops" {
		t.Errorf("called %q with %q", hosts, keys)
	}
}

// TestBaseWithoutPath: some SDKs keep only the host of their base URL. Then a token for one
// upstream says which one is meant, and so does a path that begins with its name.
func TestBaseWithoutPath(t *testing.T) {
	r := newRig(t, rigOptions{grants: []Grant{{Upstreams: []string{"api"}}, {Upstreams: []string{"api", "own"}}}})
	for _, test := range []struct {
		path, token, want string
	}{
		{"/v1/items/7", theToken, "/v1/items/7"},
		{"/v1/items/7", strings.Repeat("1", 32), ""},
		{"/api/items", strings.Repeat("1", 32), "/api/items"}, // a method of its own
		{"/api/v1/items", strings.Repeat("1", 32), "/v1/items"},
		{"/api/v1/other", theToken, ""},
		{"//v1/items", theToken, ""},
	} {
		req := r.request("GET", test.path, nil)
		req.Header.Set("X-Api-Key", test.token)
		got := r.send(req)
		if sent := r.seen(); (got.StatusCode == 200) != (test.want != "") || sent != nil && sent.URL.Path != test.want {
			t.Errorf("%s: %s %s, sent %v", test.path, got.Status, got.body, sent)
		}
	}
}

// TestTokenOfOneAccount: a token that may spend the units of one account calls that one, also where a
// label of the host names it and the SDK keeps only the host of its base URL.
func TestTokenOfOneAccount(t *testing.T) {
	for _, test := range []struct {
		grant            Grant
		path, host, auth string
	}{
		{Grant{Upstreams: []string{"shop"}, Accounts: []string{"mine"}}, "/admin/items", "mine.shop.test", "key-of-shops"},
		{Grant{Upstreams: []string{"shop"}, Accounts: []string{"mine"}}, "/shop@mine.shop.test/admin/items", "mine.shop.test", "key-of-shops"},
		{Grant{Upstreams: []string{"shop"}, Accounts: []string{"mine"}}, "/shop@other.shop.test/admin/items", "", ""},
		{Grant{Upstreams: []string{"shop"}, Accounts: []string{"*"}}, "/admin/items", "", ""},
		{Grant{Upstreams: []string{"shop"}, Accounts: []string{"mine", "other"}}, "/admin/items", "", ""},
		{Grant{Upstreams: []string{"org"}, Accounts: []string{"team"}}, "/v1/items", "", ""}, // its header names the account
	} {
		host, auth := "", ""
		r := newRig(t, rigOptions{grants: []Grant{test.grant}, change: func(o *Options) {
			o.Keys = map[string]meter.KeySource{"shop@*": keysOfAPI["shop@*"], "org": keysOfOrg["org"], "org@team": keysOfOrg["org@team"]}
			o.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				host, auth = req.URL.Host, req.Header.Get("X-Shop-Token")
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
			})
		}})
		if got := r.call("GET", test.path, "Headroom-Token", theToken); host != test.host || auth != test.auth || (host == "") == (got.StatusCode == 200) {
			t.Errorf("%s with %v: %s %s, sent to %q with %q", test.path, test.grant, got.Status, got.body, host, auth)
		}
	}
}

// heldClock is a clock on which nobody wakes up before it is told to.
type heldClock struct {
	*quota.SimClock
	wake chan struct{}
}

func (c heldClock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-c.wake:
		return c.SimClock.Sleep(ctx, d)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestWaitingIsBounded: of two calls that would wait, with one place, one waits and the
// other is refused at once, and told why.
func TestWaitingIsBounded(t *testing.T) {
	clock := heldClock{quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC)), make(chan struct{})}
	r := newRig(t, rigOptions{clock: clock, change: func(o *Options) { o.Waiting = 1 }})
	if got := r.call("GET", "/api/v1/few"); got.StatusCode != 200 {
		t.Fatalf("%s %s", got.Status, got.body)
	}
	waited := make(chan answered)
	go func() { waited <- r.call("GET", "/api/v1/few", "Headroom-Wait", "1m") }()
	until(t, "a call waits", func() bool { return r.handler.waiting.Free() == 0 })
	got := r.call("GET", "/api/v1/few", "Headroom-Wait", "1m")
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Headroom-Refused") != "too_many_waiting" || got.Header.Get("Retry-After") == "" ||
		!strings.Contains(got.body, `"code":"too_many_waiting"`) || !strings.Contains(got.body, "Headroom-Wait") {
		t.Errorf("beside the one that waits: %s %v %s", got.Status, got.Header, got.body)
	}
	if got := r.call("GET", "/api/v1/few"); got.Header.Get("Headroom-Refused") != "refused" {
		t.Errorf("one that does not ask to wait: %v", got.Header)
	}
	if calls := r.turnedAway("waiting"); calls != 1 {
		t.Errorf("%d calls are counted", calls)
	}
	close(clock.wake)
	if got := <-waited; got.StatusCode != 200 {
		t.Errorf("the one that waits: %s %s", got.Status, got.body)
	}
	if r.handler.waiting.Free() != 1 {
		t.Error("it still waits")
	}
}

// TestARefusalSaysItsPlace: a call that cannot wait as long as those before it is told how many they are.
func TestARefusalSaysItsPlace(t *testing.T) {
	clock := heldClock{quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC)), make(chan struct{})}
	r := newRig(t, rigOptions{clock: clock, change: func(o *Options) { o.Waiting = 3 }})
	if got := r.call("GET", "/api/v1/few"); got.StatusCode != 200 || got.Header.Get("Headroom-Place") != "" {
		t.Fatalf("%s %v %s", got.Status, got.Header, got.body)
	}
	waited := make(chan answered)
	go func() { waited <- r.call("GET", "/api/v1/few", "Headroom-Wait", "1m") }()
	var got answered
	until(t, "a call is behind the one that waits", func() bool {
		got = r.call("GET", "/api/v1/few", "Headroom-Wait", "1s")
		return got.Header.Get("Headroom-Place") == "2"
	})
	if got.Header.Get("Headroom-Refused") != "refused" || !strings.Contains(got.body, "1 call that came before it waits") {
		t.Errorf("%s %v %s", got.Status, got.Header, got.body)
	}
	close(clock.wake)
	<-waited
}

// TestAPlaceIsForTheWait: a call that has its units gives its place to wait back, however long
// the upstream takes to answer.
func TestAPlaceIsForTheWait(t *testing.T) {
	arrived, answer := make(chan bool), make(chan bool)
	r := newRig(t, rigOptions{
		change: func(o *Options) { o.Waiting = 1 },
		serve:  func(http.ResponseWriter, *http.Request) { arrived <- true; <-answer },
	})
	ended := make(chan answered)
	go func() { ended <- r.call("GET", "/api/v1/items", "Headroom-Wait", "1m") }()
	<-arrived
	if free := r.handler.waiting.Free(); free != 1 {
		t.Errorf("%d places are free while the upstream works on the call, want 1", free)
	}
	close(answer)
	if got := <-ended; got.StatusCode != http.StatusOK {
		t.Errorf("%s %s", got.Status, got.body)
	}
}

// TestWaitingIsShared: a token leaves places to wait for the others.
func TestWaitingIsShared(t *testing.T) {
	api := Grant{Upstreams: []string{"api"}}
	r := newRig(t, rigOptions{grants: []Grant{api, api}, change: func(o *Options) { o.Waiting = 8 }})
	if err := r.ledger.BlockFor(t.Context(), quota.Pool{Upstream: "api", Account: "default", Name: "few"}, 50*time.Minute, "test"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	wait := func(token string) {
		req := r.request("GET", "/api/v1/few", nil, "Headroom-Wait", "1h")
		req.Header.Set("X-Api-Key", token)
		calls.Go(func() {
			if resp, err := still.Do(req.WithContext(ctx)); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	for n := range int64(4) {
		wait(theToken)
		until(t, "a call waits", func() bool { return r.handler.waiting.Free() == 7-n })
	}
	if got := r.call("GET", "/api/v1/few", "Headroom-Wait", "1h"); got.Header.Get("Headroom-Refused") != "too_many_waiting" {
		t.Errorf("the fifth call of a token: %s %v", got.Status, got.Header)
	}
	wait(strings.Repeat("1", 32))
	until(t, "a call of the other token waits", func() bool { return r.handler.waiting.Free() == 3 })
	stop()
	until(t, "none waits", func() bool { return r.handler.waiting.Free() == 8 })
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never was so that %s", what)
		}
	}
}

// TestBudget: a token spends no more than its budget on a day, also across restarts, and
// beside other tokens.
func TestBudget(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC))
	both := []string{"api"}
	grants := []Grant{{Upstreams: both, Budget: "5"}, {Upstreams: both}}
	r := newRig(t, rigOptions{grants: grants, clock: clock})
	for range 2 {
		if got := r.call("GET", "/api/v1/items"); got.StatusCode != 200 {
			t.Fatalf("%s %s", got.Status, got.body)
		}
	}
	over := r.call("GET", "/api/v1/items")
	if over.StatusCode != http.StatusTooManyRequests || over.Header.Get("Retry-After") != "7200" || over.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("over its budget: %s %q", over.Status, over.Header)
	}
	larger := grants[0]
	larger.Budget = "7" // what was spent counts
	r.handler.Update(tokensOf(t, larger, grants[1]))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got := r.call("GET", "/api/v1/items"); got.StatusCode != want {
			t.Errorf("with a larger budget: %s, want %d", got.Status, want)
		}
	}
	req := r.request("GET", "/api/v1/items", nil)
	req.Header.Set("X-Api-Key", strings.Repeat("1", 32))
	if got := r.send(req); got.StatusCode != 200 {
		t.Errorf("another token: %s", got.Status)
	}
	again, err := New(r.ledger, tokensOf(t, grants...), &Options{Clock: clock, Log: r.handler.set.Log})
	if err != nil {
		t.Fatal(err)
	}
	<-again.set.Budgets.read(t.Context())
	if spent := again.set.Budgets.spends["etl"].whole.Spent(); spent != 6 {
		t.Errorf("after a restart %d are spent", spent)
	}
	clock.Advance(2 * time.Hour)
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != 200 {
		t.Errorf("the next day: %s %s", got.Status, got.body)
	}
}
