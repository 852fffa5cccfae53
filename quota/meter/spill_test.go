package meter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// spilling is a book of two upstreams that are equal, and of one with two accounts that its host names.
const spilling = `
revision: 1
budgets:
  both: {quota: 4 USD, windows: [{per: day}], of: [paid, paid-too]}
upstreams:
  west:
    hosts: [west.example.com]
    api_key: {header: X-West-Key, query: west_key}
    account: {header: X-West-Org}
    accounts: {default: {}, team: {}}
    spill: [east, far@default]
    spill_methods: [ask, list, slow, weigh, say, gone]
    refusals: [{status: 429, for: 1h}]
    pools: {calls: {quota: 2, windows: [{per: 1h}]}, slots: {windows: [{in_flight: 1, ttl: 1h}]}, bytes: {quota: 10, windows: [{per: 1h}]}}
    methods:
      ask: {route: "POST /v1/ask/{model}/{rest...}", pool: calls, cost: 1}
      list: {route: GET /v1/list, pool: calls, cost: 1}
      slow: {route: GET /v1/slow, pool: slots, cost: 1}
      weigh: {route: POST /v1/weigh, pool: bytes, cost: {estimate: {body: size, default: 1}}}
      say: {route: POST /v1/say, pool: calls, cost: 1}
      own: {route: GET /v1/own, pool: calls, cost: 1}
      gone: {route: GET /v1/gone, pool: calls, cost: 1}
  east:
    hosts: [east.example.com/api/]
    api_key: {header: X-East-Key, query: east_key}
    account: {header: X-East-Org}
    accounts: {default: {}, team: {}}
    pools: {calls: {quota: 2, windows: [{per: 1h}]}, slots: {windows: [{in_flight: 1, ttl: 1h}]}, bytes: {quota: 10, windows: [{per: 1h}]}}
    methods:
      ask: {route: "POST /api/models/{model}/{rest...}", pool: calls, cost: 1}
      list: {route: GET /api/list, pool: calls, cost: 1}
      slow: {route: GET /api/slow, pool: slots, cost: 1}
      weigh: {route: POST /api/weigh, pool: bytes, cost: {estimate: {body: weight, default: 1}}}
      say: {route: POST /api/say, pool: bytes, cost: {estimate: {body: size, default: 1}}}
      gone: {route: GET /api/gone, pool: calls, cost: 1}
  far:
    hosts: [far.example.com]
    pools: {calls: {quota: 1, windows: [{per: 1h}]}}
    methods: {ask: {route: "POST /v1/ask/{model}/{rest...}", pool: calls, cost: 1}, others: {route: "* /v1/{rest...}", pool: calls, cost: 1}}
  region:
    hosts: ["*.region.example.com"]
    account: {host: 1}
    accounts: any
    api_key: {header: Authorization}
    spill: [region@b, region@c]
    pools: {calls: {quota: 1, windows: [{per: 1h}]}}
    methods: {list: {route: GET /v1/list, cost: 1}}
  paid:
    hosts: [paid.example.com]
    spill: [paid-too]
    pools: {calls: {quota: 1, windows: [{per: 1h}]}}
    methods: {list: {route: GET /v1/list, cost: 1, bill: 2 USD}, dear: {route: GET /v1/dear, cost: 1, bill: 5 USD}}
  paid-too:
    hosts: [paid-too.example.com]
    pools: {calls: {quota: 3, windows: [{per: 1h}]}}
    methods: {list: {route: GET /v1/list, cost: 1, bill: 1 USD}, dear: {route: GET /v1/dear, cost: 1, bill: 1 USD}}
`

// spillRig remembers what each host got.
type spillRig struct {
	*rig
	mu   sync.Mutex
	got  map[string][]string // by host: verb and URL, and the body
	last map[string]http.Header
}

func newSpillRig(t *testing.T, o *meter.Options) *spillRig {
	s := &spillRig{got: map[string][]string{}, last: map[string]http.Header{}}
	s.rig = newRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got[req.Host] = append(s.got[req.Host], strings.TrimSpace(req.Method+" "+req.URL.RequestURI()+" "+string(body)))
		s.last[req.Host] = req.Header
		w.Header().Set("Set-Cookie", "session="+req.Host)
		switch req.URL.Path {
		case "/v1/list":
			if req.URL.Query().Get("refuse") != "" {
				w.WriteHeader(http.StatusTooManyRequests)
			}
		case "/api/gone":
			w.Header().Set("Location", "https://east.example.com/api/list")
			w.WriteHeader(http.StatusFound)
		}
	}, nil)
	s.ledger = newLedger(t, spilling, s.clock)
	if o == nil {
		o = &meter.Options{}
	}
	if o.Keys == nil {
		o.Keys = map[string]meter.KeySource{
			"west": meter.Key("secret-of-west"), "west@team": meter.Key("secret-of-west-team"), "east": meter.Key("secret-of-east"), "east@team": meter.Key("secret-of-east-team"),
			"region@a": meter.Key("Bearer of-a-a"), "region@b": meter.Key("Bearer of-b-b"), "region@c": meter.Key("Bearer of-c-c"),
		}
	}
	s.meter(o)
	return s
}

// to makes a call, and returns the host that it has reached; "" if it was refused.
func (s *spillRig) to(verb, url, body string, change ...func(*http.Request)) (host string, told http.Header, err error) {
	s.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = struct{ io.Reader }{strings.NewReader(body)} // which cannot be had again
	}
	req, err := http.NewRequestWithContext(s.t.Context(), verb, url, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range change {
		c(req)
	}
	s.mu.Lock()
	before := map[string]int{}
	for host := range s.got {
		before[host] = len(s.got[host])
	}
	s.mu.Unlock()
	resp, err := s.client.Transport.RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		told = resp.Header
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, all := range s.got {
		if len(all) > before[name] {
			host += strings.TrimSuffix(name, ".example.com")
		}
	}
	return host, told, err
}

// goes checks which host a call reaches, and what the answer says of it.
func (s *spillRig) goes(want, spilled, verb, url, body string) {
	s.t.Helper()
	host, told, err := s.to(verb, url, body)
	switch {
	case host != want:
		s.t.Errorf("%s %s went to %q, want %q: %v", verb, url, host, want, err)
	case want == "":
		refused(s.t, err)
	case (told.Get("Set-Cookie") == "") != (spilled != ""):
		s.t.Errorf("%s %s: cookie %q", verb, url, told.Get("Set-Cookie"))
	case told.Get(meter.SpilledHeader) != spilled:
		s.t.Errorf("%s %s: header %q, want %q", verb, url, told.Get(meter.SpilledHeader), spilled)
	}
}

func TestSpill(t *testing.T) {
	const ask, list = "https://west.example.com/v1/ask/big%20one/now", "https://west.example.com/v1/list"
	t.Run("used up", func(t *testing.T) {
		s := newSpillRig(t, nil)
		s.goes("west", "", "POST", ask, "1")
		s.goes("west", "", "POST", ask, "2")
		s.goes("east", "east", "POST", ask, "3")
		s.goes("east", "east", "POST", ask, "4")
		s.goes("far", "far@default", "POST", ask, "5")
		s.goes("", "", "POST", ask, "6")
		for host, want := range map[string]string{
			"west.example.com": "POST /v1/ask/big%20one/now 1\nPOST /v1/ask/big%20one/now 2",
			"east.example.com": "POST /api/models/big%20one/now 3\nPOST /api/models/big%20one/now 4", // by the name of the method
			"far.example.com":  "POST /v1/ask/big%20one/now 5",                                       // by the route
		} {
			if got := strings.Join(s.got[host], "\n"); got != want {
				t.Errorf("%s got\n%s\nwant\n%s", host, got, want)
			}
		}
		for pool, want := range map[string]int64{"west/calls": 2, "east/calls": 2, "far/calls": 1} {
			if used := s.used(pool); used != want {
				t.Errorf("%d of %s are used, want %d", used, pool, want)
			}
		}
		if text := s.log.String(); !strings.Contains(text, `msg="call spilled" upstream=west method=ask account=default to=east`) {
			t.Errorf("the log does not say where calls went:\n%s", text)
		}
	})
	t.Run("by the same route", func(t *testing.T) {
		s := newSpillRig(t, nil)
		s.goes("west", "", "GET", list, "")
		s.goes("west", "", "GET", list, "")
		s.goes("east", "east", "GET", list+"?page=2", "")
		if got := s.got["east.example.com"]; len(got) != 1 || got[0] != "GET /api/list?page=2" {
			t.Errorf("east got %q", got)
		}
		if s.used("far/calls") != 0 {
			t.Error("far was charged")
		}
	})
	t.Run("shut by the upstream", func(t *testing.T) {
		s := newSpillRig(t, nil)
		s.goes("west", "", "GET", list+"?refuse=1", "") // its answer is what the caller gets
		s.goes("east", "east", "GET", list, "")
	})
	t.Run("slots", func(t *testing.T) {
		s := newSpillRig(t, nil)
		for _, upstream := range []string{"west", "east"} {
			if err := s.client.Transport.(*meter.Transport).Flush(t.Context()); err != nil { // gives the slots of earlier calls back
				t.Fatal(err)
			}
			_, err := s.ledger.Reserve(t.Context(), quota.Call{Upstream: upstream, Method: "slow"})
			if err != nil {
				t.Fatal(err)
			}
			if upstream == "west" {
				s.goes("east", "east", "GET", "https://west.example.com/v1/slow", "")
			} else {
				s.goes("far", "far@default", "GET", "https://west.example.com/v1/slow", "")
			}
		}
	})
	t.Run("accounts of a host", func(t *testing.T) {
		s := newSpillRig(t, nil)
		s.goes("a.region", "", "GET", "https://a.region.example.com/v1/list", "")
		s.goes("b.region", "region@b", "GET", "https://a.region.example.com/v1/list", "")
		s.goes("c.region", "region@c", "GET", "https://b.region.example.com/v1/list", "")
		s.goes("", "", "GET", "https://c.region.example.com/v1/list", "")
		for _, account := range []string{"a", "b", "c"} {
			if key := s.last[account+".region.example.com"].Get("Authorization"); key != "Bearer of-"+account+"-"+account {
				t.Errorf("account %s got the key %q", account, key)
			}
		}
	})
	t.Run("the account of the call", func(t *testing.T) {
		s := newSpillRig(t, nil)
		team := func(req *http.Request) { req.Header.Set("X-West-Org", "team") }
		for range 3 {
			if _, _, err := s.to("GET", list, "", team); err != nil {
				t.Fatal(err)
			}
		}
		h := s.last["east.example.com"]
		if h.Get("X-East-Org") != "team" || h.Get("X-West-Org") != "" || h.Get("X-East-Key") != "secret-of-east-team" || s.used("east@team/calls") != 1 {
			t.Errorf("east got %v", h)
		}
	})
	t.Run("budgets", func(t *testing.T) {
		s := newSpillRig(t, nil)
		const list = "https://paid.example.com/v1/list"
		s.goes("paid", "", "GET", list, "")
		s.goes("paid-too", "paid-too", "GET", list, "")
		if used := s.used("budgets/both"); used != 3*book.Millionths {
			t.Errorf("%d millionths are spent, want 3 dollars: each call at the price of where it went", used)
		}
		s.goes("paid-too", "paid-too", "GET", list, "")
		s.goes("", "", "GET", list, "") // the budget is empty for both
		if s.used("paid-too/calls") != 2 || s.used("budgets/both") != 4*book.Millionths {
			t.Error("a call was charged that was not sent")
		}
	})
}

// A call spills for lack of units alone.
func TestNoSpill(t *testing.T) {
	const list = "https://west.example.com/v1/list"
	full := func(t *testing.T, o *meter.Options) *spillRig {
		s := newSpillRig(t, o)
		s.goes("west", "", "GET", list, "")
		s.goes("west", "", "GET", list, "")
		return s
	}
	t.Run("impossible", func(t *testing.T) {
		host, _, err := newSpillRig(t, nil).to("GET", "https://paid.example.com/v1/dear", "")
		if host != "" || !errors.Is(err, quota.ErrImpossible) {
			t.Errorf("%q, %v", host, err)
		}
	})
	t.Run("unpriced", func(t *testing.T) {
		host, _, err := newSpillRig(t, nil).to("GET", "https://west.example.com/v1/nothing", "")
		if host != "" || !errors.Is(err, quota.ErrUnpriced) {
			t.Errorf("%q, %v", host, err)
		}
	})
	t.Run("no key of its own", func(t *testing.T) {
		host, _, err := newSpillRig(t, &meter.Options{Keys: map[string]meter.KeySource{"west@team": meter.Key("key"), "east": meter.Key("key")}}).to("GET", list, "")
		if host != "" || !errors.Is(err, meter.ErrCredential) {
			t.Errorf("%q, %v", host, err)
		}
	})
	t.Run("no key of the other", func(t *testing.T) {
		s := full(t, &meter.Options{Keys: map[string]meter.KeySource{"west": meter.Key("key")}})
		s.goes("far", "far@default", "GET", list, "") // which needs none
		if s.used("east/calls") != 0 {
			t.Error("east was charged")
		}
	})
	t.Run("a method that may not", func(t *testing.T) {
		full(t, nil).goes("", "", "GET", "https://west.example.com/v1/own", "")
	})
	t.Run("the caller says no", func(t *testing.T) {
		s := full(t, nil)
		var asked []string
		host, _, _ := s.to("GET", list, "", func(req *http.Request) {
			c := meter.CallerOf(req.Context())
			c.Spill = func(req *http.Request, m *book.Match, goes bool) bool {
				asked = append(asked, fmt.Sprintf("%s is %s of %s: %t", req.URL, m.Method.Name, m.Upstream.Name, goes))
				return m.Upstream.Name != "east"
			}
			*req = *req.WithContext(meter.WithCaller(req.Context(), c))
		})
		want := []string{"https://east.example.com/api/list is list of east: false", "https://far.example.com/v1/list is others of far: false", "https://far.example.com/v1/list is others of far: true"}
		if host != "far" || !slices.Equal(asked, want) {
			t.Errorf("went to %q, asked %q", host, asked)
		}
	})
	t.Run("outage", func(t *testing.T) {
		s := newSpillRig(t, nil)
		b := s.ledger.Book()
		down, err := quota.New(b, downStore{newStore(s.clock)}, &quota.Options{Clock: s.clock})
		if err != nil {
			t.Fatal(err)
		}
		s.ledger = down
		s.meter(nil)
		host, _, err := s.to("GET", "https://paid.example.com/v1/list", "")
		if host != "" || !errors.Is(err, quota.ErrOutage) {
			t.Errorf("%q, %v", host, err)
		}
	})
	t.Run("a redirect", func(t *testing.T) {
		s := full(t, nil)
		_, _, err := s.to("GET", "https://west.example.com/v1/gone", "")
		var redirect *meter.RedirectError
		if !errors.As(err, &redirect) || redirect.Upstream != "east" {
			t.Errorf("%v, want a redirect of east: the client would follow it with its own headers", err)
		}
	})
}

type downStore struct{ quota.Store }

func (downStore) Reserve(context.Context, quota.Request) (quota.Verdict, error) {
	return quota.Verdict{}, errors.New("down")
}

// Nothing that may be a key of the first upstream reaches the other one.
func TestSpillKeepsKeys(t *testing.T) {
	const key = "secret-of-west"
	places := map[string]func(*http.Request){
		"none":               func(*http.Request) {},
		"its header":         func(r *http.Request) { r.Header.Set("X-West-Key", key) },
		"its header, spelt":  func(r *http.Request) { r.Header["x-west-KEY"] = []string{key} },
		"its header, in CGI": func(r *http.Request) { r.Header["X_west_key"] = []string{"other-" + "key"} },
		"authorization":      func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) },
		"basic":              func(r *http.Request) { r.SetBasicAuth("me", key) },
		"the address":        func(r *http.Request) { r.URL.User = url.UserPassword("me", key) },
		"a cookie":           func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "session", Value: key}) },
		"another header":     func(r *http.Request) { r.Header.Set("X-Anything", "my key is "+key) },
		"another key header": func(r *http.Request) { r.Header.Set("Api-Key", key) },
		"the other's header": func(r *http.Request) { r.Header.Set("X-East-Key", key) },
		"the referer":        func(r *http.Request) { r.Header.Set("Referer", "https://west.example.com/?k="+url.QueryEscape(key)) },
		"a parameter":        func(r *http.Request) { r.URL.RawQuery = "page=2&q=" + url.QueryEscape(key) },
		"a token parameter":  func(r *http.Request) { r.URL.RawQuery = "page=2&access%5Ftoken=" + key },
		"the host":           func(r *http.Request) { r.Host = "west.example.com" },
		"a trailer": func(r *http.Request) {
			r.Method, r.URL.Path, r.Trailer = "POST", "/v1/ask/m/x", http.Header{"X-West-Key": {key}}
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
		},
		"the organisation": func(r *http.Request) { r.Header.Set("X-West-Org", "default") },
	}
	for name, put := range places {
		for _, keyed := range []bool{true, false} { // the transport has the key, or the caller alone
			t.Run(fmt.Sprint(name, " ", keyed), func(t *testing.T) {
				o := &meter.Options{Keys: map[string]meter.KeySource{"east": meter.Key("secret-of-east")}}
				if keyed {
					o.Keys["west"] = meter.Key(key)
				}
				s := newSpillRig(t, o)
				var seen bytes.Buffer
				s.base.DisableCompression = true
				o.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
					if req.URL.Host == "east.example.com" {
						_ = req.Write(&seen)
						req.Body = http.NoBody
					}
					return s.base.RoundTrip(req)
				})
				s.meter(o)
				for range 2 {
					if _, _, err := s.to("GET", "https://west.example.com/v1/list", ""); err != nil {
						t.Fatal(err)
					}
				}
				if !keyed && strings.Contains(name, "header, in CGI") {
					t.Skip("nobody knows that it is one")
				}
				_, _, err := s.to("GET", "https://west.example.com/v1/list", "", put)
				if err != nil {
					t.Fatal(err)
				}
				text := seen.String()
				if !strings.Contains(text, "\nX-East-Key: secret-of-east\r\n") || !strings.Contains(text, "\nHost: east.example.com\r\n") {
					t.Errorf("east got\n%s", text)
				}
				if unheard := !keyed && (name == "another header" || name == "the referer" || name == "a parameter"); !unheard && (strings.Contains(text, key) || strings.Contains(strings.ToLower(text), "west")) {
					t.Errorf("east got a key of west, or its name:\n%s", text)
				}
				if strings.Contains(name, "parameter") && !strings.Contains(text, "page=2") {
					t.Errorf("east lacks a parameter:\n%s", text)
				}
			})
		}
	}
}

// A body of which the price was read is sent whole, wherever the call goes.
func TestSpillOfABody(t *testing.T) {
	for name, body := range map[string]string{
		"short":    `{"size": 4, "weight": 5}`,
		"long":     `{"size": 4, "weight": 5, "text": "` + strings.Repeat("x", 100_000) + `"}`,
		"too dear": `{"size": 4, "weight": 11}`, // for the other one: an estimate counts as its limit
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpillRig(t, nil)
			const weigh = "https://west.example.com/v1/weigh"
			s.goes("west", "", "POST", weigh, body)
			s.goes("west", "", "POST", weigh, body)
			s.goes("east", "east", "POST", weigh, body)
			if used := s.used("east/bytes"); used != map[bool]int64{true: 10, false: 5}[name == "too dear"] {
				t.Errorf("%d bytes are charged at east", used)
			}
			s.clock.Advance(2 * time.Hour)
			if err := s.ledger.Block(t.Context(), quota.Pool{Upstream: "east", Account: "default", Name: "bytes"}, s.clock.Now().Add(time.Hour), "test"); err != nil {
				t.Fatal(err)
			}
			if err := s.ledger.Block(t.Context(), quota.Pool{Upstream: "west", Account: "default", Name: "bytes"}, s.clock.Now().Add(time.Minute), "test"); err != nil {
				t.Fatal(err)
			}
			s.goes("far", "far@default", "POST", weigh, body)
			s.clock.Advance(2 * time.Hour) // east and west are open
			if err := s.ledger.Block(t.Context(), quota.Pool{Upstream: "east", Account: "default", Name: "bytes"}, s.clock.Now().Add(time.Hour), "test"); err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{"west", "west", "far"} { // the last one was read for the price at east alone
				s.goes(host, map[string]string{"far": "far@default"}[host], "POST", "https://west.example.com/v1/say", body)
			}
			for _, host := range []string{"west", "east", "far"} {
				for _, got := range s.got[host+".example.com"] {
					if !strings.HasSuffix(got, " "+body) {
						t.Errorf("%s got %.100s and %d bytes in all", host, got, len(got))
					}
				}
			}
		})
	}
}

// A call that finds no units anywhere waits for its own upstream, and those that come later do not pass it there.
func TestSpillThenWait(t *testing.T) {
	s := newSpillRig(t, nil)
	clock := &gate{s.clock, make(chan struct{}), make(chan struct{})}
	s.ledger = newLedger(t, spilling, clock)
	s.meter(&meter.Options{MaxWait: 3 * time.Hour, Keys: map[string]meter.KeySource{"west": meter.Key("w"), "east": meter.Key("e")}})
	const ask = "https://west.example.com/v1/ask/m/x"
	for _, host := range []string{"west", "west", "east", "east", "far"} {
		s.goes(host, map[string]string{"east": "east", "far": "far@default"}[host], "POST", ask, "x")
	}
	ended := make(chan string, 1)
	go func() {
		_, told, err := s.to("POST", ask, "waits")
		ended <- fmt.Sprint(told != nil && told.Get(meter.SpilledHeader) == "", err)
	}()
	<-clock.asleep
	// The other one gets units before the first has some. A call that comes then goes there at once, though another one waits.
	if _, err := s.ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "east", Account: "default", Name: "calls"}, -2, "test"); err != nil {
		t.Fatal(err)
	}
	s.goes("east", "east", "POST", ask, "later")
	s.clock.Advance(90 * time.Minute)
	s.goes("east", "east", "POST", ask, "later still") // the first has units again, for which another call waits
	close(clock.open)
	if got := <-ended; got != "true <nil>" {
		t.Error(got)
	}
	if got := s.got["west.example.com"]; !strings.HasSuffix(got[len(got)-1], "waits") {
		t.Errorf("west got %q", got)
	}
}

// gate is a clock on which nobody wakes up before it is open.
type gate struct {
	*quota.SimClock
	asleep, open chan struct{}
}

func (g *gate) Sleep(ctx context.Context, _ time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case g.asleep <- struct{}{}:
	case <-g.open:
	case <-ctx.Done():
	}
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// A book without the spill settles what a call has reserved at the other upstream.
func TestSpillLeavesTheBook(t *testing.T) {
	s := newSpillRig(t, nil)
	const weigh = "https://west.example.com/v1/weigh"
	s.goes("west", "", "POST", weigh, `{"size": 10}`)
	req, _ := http.NewRequestWithContext(t.Context(), "POST", weigh, strings.NewReader(`{"size": 10, "weight": 7}`))
	resp, err := s.client.Do(req)
	if err != nil || resp.Header.Get(meter.SpilledHeader) != "east" {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	other, err := book.Parse("costs.yaml", []byte(strings.NewReplacer("spill: [east, far@default]\n", "\n", "    spill_methods: [ask, list, slow, weigh, say, gone]\n", "").Replace(spilling)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ledger.SetBook(other); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if s.used("east/bytes") != 7 || s.used("west/bytes") != 10 {
		t.Errorf("%d of east and %d of west are used", s.used("east/bytes"), s.used("west/bytes"))
	}
	s.goes("", "", "POST", weigh, `{"size": 10, "weight": 1}`)
}

// Two simulated upstreams count what they get in every hour. Calls come at random, and each goes where the oracle says.
func TestSpillAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := newSpillRig(t, nil)
	sent := map[string][]time.Time{} // by host, of those of the last hour
	const limit = 2
	left := func(host string) bool {
		n := 0
		for _, at := range sent[host] {
			if s.clock.Now().Sub(at) <= time.Hour+time.Minute { // the precision of the window
				n++
			}
		}
		return n < limit
	}
	spilledOften, refusedOften := 0, 0
	for n := 0; n < 400 || n < 4000 && (spilledOften < 10 || refusedOften < 10); n++ {
		s.clock.Advance(time.Duration(random.IntN(40)) * time.Minute)
		host, _, err := s.to("GET", "https://west.example.com/v1/list?page="+fmt.Sprint(random.IntN(9)), "")
		strict := func(host string) int { // what the upstream itself has counted in the hour before
			n := 0
			for _, at := range sent[host] {
				if s.clock.Now().Sub(at) < time.Hour {
					n++
				}
			}
			return n
		}
		most := map[string]int{"west": limit, "east": limit, "far": 1}
		switch {
		case host != "" && strict(host) >= most[host]:
			t.Fatalf("%s got more than its limit", host)
		case host == "" && (left("west") || left("east")):
			t.Fatalf("a call was refused though units were left: %v", err)
		case host == "east" && left("west"), host == "far" && (left("west") || left("east")):
			t.Fatalf("a call spilled to %s though an earlier upstream had units", host)
		case host == "":
			refused(t, err)
			refusedOften++
			continue
		}
		if host != "west" {
			spilledOften++
		}
		sent[host] = append(sent[host], s.clock.Now())
	}
	if spilledOften < 10 || refusedOften < 10 {
		t.Errorf("only %d calls spilled and %d were refused", spilledOften, refusedOften)
	}
}
