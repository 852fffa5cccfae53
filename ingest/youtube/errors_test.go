package youtube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// trip is a RoundTripper made of a function.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is one of JSON; its status is that of its error.
func answer(r *http.Request, body string) *http.Response {
	status := http.StatusOK
	if _, code, ok := strings.Cut(body, `{"error":{"code":`); ok {
		fmt.Sscanf(code, "%d", &status)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// answers says the same to everything.
func answers(body string) trip {
	return func(r *http.Request) (*http.Response, error) { return answer(r, body), nil }
}

// fails never gets an answer.
func fails(err error) trip { return func(*http.Request) (*http.Response, error) { return nil, err } }

// paths answers by the end of a path.
type paths map[string]string

func (p paths) RoundTrip(r *http.Request) (*http.Response, error) {
	return answer(r, p[path.Base(r.URL.Path)]), nil
}

// every call that there is.
var every = map[string]func(context.Context, *youtube.Client, catalog.Cursor) (*catalog.Page, error){
	"videos.list": func(ctx context.Context, c *youtube.Client, at catalog.Cursor) (*catalog.Page, error) {
		return c.Trending(ctx, "DE", "10", at)
	},
	"search.list": func(ctx context.Context, c *youtube.Client, at catalog.Cursor) (*catalog.Page, error) {
		return c.Search(ctx, football, at)
	},
	"channels.list": func(ctx context.Context, c *youtube.Client, at catalog.Cursor) (*catalog.Page, error) {
		return c.Uploads(ctx, "UCabc", at)
	},
	"videos.batchGetStats": func(ctx context.Context, c *youtube.Client, _ catalog.Cursor) (*catalog.Page, error) {
		return c.Statistics(ctx, []string{"abc"})
	},
}

// about is what the error of each call names.
var about = map[string]string{"videos.list": "DE", "search.list": "football highlights", "channels.list": "UCabc", "videos.batchGetStats": "1 video"}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault     youtubesim.Fault
		status    int
		temporary bool
	}{
		"500":                   {youtubesim.Fault{Do: youtubesim.Answer, Status: 500}, 500, true},
		"503":                   {youtubesim.Fault{Do: youtubesim.Answer}, 503, true},
		"408":                   {youtubesim.Fault{Do: youtubesim.Answer, Status: 408}, 408, true},
		"401":                   {youtubesim.Fault{Do: youtubesim.Answer, Status: 401}, 401, false},
		"400":                   {youtubesim.Fault{Do: youtubesim.Answer, Status: 400}, 400, false},
		"reset":                 {youtubesim.Fault{Do: youtubesim.Reset}, 0, true},
		"half a body":           {youtubesim.Fault{Do: youtubesim.HalfBody}, 0, true},
		"stalled":               {youtubesim.Fault{Do: youtubesim.Stall}, 0, true},
		"the quota":             {youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.QuotaExceeded}, 403, true},
		"the quota, of old":     {youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.DailyLimitExceeded}, 403, true},
		"the quota of a pool":   {youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.PerDay}, 429, true},
		"a burst":               {youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.PerMinute}, 429, true},
		"a key that is blocked": {youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.KeyBlocked}, 403, false},
		"a key that is wrong":   {youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.KeyInvalid}, 400, false},
		"elsewhere":             {youtubesim.Fault{Do: youtubesim.Redirect, Location: "http://127.0.0.1:1/?key=" + secret}, 0, true},
		"in circles":            {youtubesim.Fault{Do: youtubesim.Redirect, Location: "/youtube/v3/videos?key=" + secret}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{c.fault}})
			for method, call := range every {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				if c.fault.Do == youtubesim.Stall {
					cancel()
					ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
				}
				p, err := call(ctx, u.Client, catalog.Cursor{})
				cancel()
				failure, ok := errors.AsType[*youtube.Error](err)
				if p != nil || !ok {
					t.Fatalf("%s: %+v, %v", method, p, err)
				}
				if failure.Status != c.status || failure.Method != method || youtube.Temporary(err) != c.temporary {
					t.Errorf("%s: status %d, temporary %t: %v", failure.Method, failure.Status, youtube.Temporary(err), err)
				}
				if s := err.Error(); !strings.HasPrefix(s, method+" ") || !strings.Contains(s, about[method]) || strings.Contains(s, secret) || strings.Contains(s, "key=A") || strings.Contains(s, "http:") {
					t.Errorf("%s: %s", method, s)
				}
				if c.status == 0 && name != "stalled" {
					t.Log(err)
				}
			}
			u.sim.Heal()
			if p, err := u.Trending(ctx, "DE", "", catalog.Cursor{}); err != nil || len(p.Videos) == 0 {
				t.Errorf("after it has passed: %v", err)
			}
		})
	}
}

func TestPageToken(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{})
	ch := u.busy(t)
	for name, f := range map[string]fetch{"trending": u.trending("DE", ""), "search": u.search(football), "uploads": u.uploads(ch.ID)} {
		mark := catalog.Cursor{Mark: noon.AddDate(-1, 0, 0)}
		at := mark
		pass(t, &at, 1, f)
		if !at.Begun() {
			t.Fatalf("%s: there is no second page", name)
		}
		for _, token := range []string{"none", "%zz", "page=x&token=a", "page=2&token=none", "page=2&token=none&before=never", "playlist=" + ch.Uploads, "playlist=" + ch.Uploads + "&token=none", "playlist=UUnone&token=none"} {
			bad := at
			bad.Token = token
			before := u.sim.Counts().Total().Calls
			_, err := f(bad)
			if name == "uploads" && token == "playlist=UUnone&token=none" {
				continue // a channel that is gone, and so are its videos
			}
			if !errors.Is(err, youtube.ErrPageToken) || youtube.Temporary(err) {
				t.Errorf("%s: token %q: %v", name, token, err)
			}
			if n := u.sim.Counts().Total().Calls - before; n > 1 {
				t.Errorf("%s: token %q: %d calls", name, token, n)
			}
		}
		if _, err := f(at); err != nil {
			t.Errorf("%s: the good one: %v", name, err)
		}
		if _, err := f(mark); errors.Is(err, youtube.ErrPageToken) || err != nil {
			t.Errorf("%s: anew: %v", name, err)
		}
	}
}

// outage stands for what the ledger says when its own connection is broken.
type outage struct{ cause error }

func (o *outage) Error() string { return "ledger outage: " + o.cause.Error() }
func (o *outage) Unwrap() error { return o.cause }

func TestErrorsOfTheTransport(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for name, c := range map[string]struct {
		err       error
		temporary bool
	}{
		"an outage of the ledger":          {&outage{reset}, false},
		"a timeout of the ledger":          {fmt.Errorf("reserve: %w", &outage{context.DeadlineExceeded}), false},
		"a refusal":                        {&outage{errors.New("no units")}, false},
		"a connection that was reset":      {reset, true},
		"one that was reset, with words":   {fmt.Errorf("http: %w", reset), true},
		"one that was closed":              {io.EOF, true},
		"a timeout of the client":          {context.DeadlineExceeded, true},
		"a certificate that is not theirs": {errors.New("x509: certificate"), false},
	} {
		for method, call := range every {
			_, err := call(ctx, newClient(t, &http.Client{Transport: fails(c.err)}, ""), catalog.Cursor{})
			if !errors.Is(err, c.err) || youtube.Temporary(err) != c.temporary {
				t.Errorf("%s: %s: temporary %t: %v", name, method, youtube.Temporary(err), err)
			}
			if strings.Contains(err.Error(), "googleapis.com") {
				t.Errorf("%s: %s: it shows the request: %v", name, method, err)
			}
		}
	}
	_, err := newClient(t, &http.Client{Transport: fails(&outage{reset})}, "").Videos(ctx, []string{"a"})
	if o, ok := errors.AsType[*outage](err); !ok || !errors.Is(o.cause, reset) {
		t.Errorf("the typed error is lost: %v", err)
	}
}

// The errors of the metered transport, and what the ledger makes of a refusal.
func TestMetered(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{})
	clock := quota.NewSimClock(noon)
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
extends: builtin
upstreams:
  youtube:
    hosts: [%q]
    pools: {searches: {quota: 2, headroom: 0, windows: [{per: 24h}]}}
`, strings.TrimPrefix(u.url, "http://")), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := meter.New(ledger, &meter.Options{
		Keys: map[string]meter.KeySource{"youtube": meter.Key(secret)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, &http.Client{Transport: transport}, u.url)

	t.Run("a refusal of the ledger", func(t *testing.T) {
		for range 2 {
			if _, err := c.Search(ctx, football, catalog.Cursor{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.Search(ctx, football, catalog.Cursor{})
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || refused.RetryAfter <= 0 || youtube.Temporary(err) {
			t.Errorf("%v", err)
		}
		if n := u.calls("search.list"); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
	t.Run("a refusal of the upstream is one of the ledger by the next attempt", func(t *testing.T) {
		u.sim.Inject(youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.QuotaExceeded})
		defer u.sim.Heal()
		if _, err := c.Trending(ctx, "DE", "", catalog.Cursor{}); !youtube.Temporary(err) {
			t.Errorf("%v", err)
		}
		if _, err := c.Trending(ctx, "DE", "", catalog.Cursor{}); !errors.Is(err, quota.ErrBlocked) || youtube.Temporary(err) {
			t.Errorf("then %v", err)
		}
	})
	t.Run("a key that is refused", func(t *testing.T) {
		u.sim.Inject(youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.KeyBlocked})
		defer u.sim.Heal()
		_, err := c.Statistics(ctx, []string{"a"})
		if !errors.Is(err, meter.ErrCredential) || youtube.Temporary(err) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	})
}

func TestCancelled(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{{Do: youtubesim.Stall}}})
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := u.Trending(ctx, "DE", "", catalog.Cursor{}); !errors.Is(err, context.Canceled) || youtube.Temporary(err) {
		t.Errorf("%v, temporary %t", err, youtube.Temporary(err))
	}
	if youtube.Temporary(nil) || youtube.Temporary(io.EOF) {
		t.Error("what is not ours is temporary")
	}
}

func TestTimeoutOfTheClient(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{{Do: youtubesim.Stall}}})
	u.http.Timeout = 50 * time.Millisecond
	if _, err := newClient(t, u.http, u.url).Trending(ctx, "DE", "", catalog.Cursor{}); !youtube.Temporary(err) {
		t.Errorf("%v", err)
	}
}

func TestStreamThatIsReset(t *testing.T) {
	for name, write := range map[string]bool{"before the answer": false, "within the answer": true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if write {
				io.WriteString(w, `{"items":[`)
				http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		defer server.Close()
		_, err := newClient(t, server.Client(), server.URL).Trending(ctx, "DE", "", catalog.Cursor{})
		if !youtube.Temporary(err) || !strings.Contains(err.Error(), "stream") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMessagesHoldNoKey(t *testing.T) {
	suspended := `{"error":{"code":403,"message":"Permission denied: Consumer 'api_key:` + secret + `' has been suspended.","status":"PERMISSION_DENIED","details":[{"reason":"CONSUMER_SUSPENDED"}]}}`
	for name, transport := range map[string]http.RoundTripper{
		"suspended":          answers(suspended),
		"a page instead":     answers("<html>" + secret),
		"an error in a page": answers(`{"error":{"code":500}} ` + secret),
		"the transport":      fails(errors.New("dial https://youtube.googleapis.com/?key=" + secret)),
	} {
		for method, call := range every {
			_, err := call(ctx, newClient(t, &http.Client{Transport: transport}, ""), catalog.Cursor{})
			if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(fmt.Sprintf("%+v", err), secret) {
				t.Errorf("%s: %s: %v", name, method, err)
			}
		}
	}
}

// A proxy may answer with JSON of its own, and has no list: what was asked for is not
// gone, nor a chart empty.
func TestAnswersOfSomebodyElse(t *testing.T) {
	for _, body := range []string{`{}`, `{"items":[]}`, `{"status":"ok"}`, `{"kind":"portal#login","items":[]}`, `null`} {
		for method, call := range every {
			p, err := call(ctx, newClient(t, &http.Client{Transport: answers(body)}, ""), catalog.Cursor{})
			if !youtube.Temporary(err) {
				t.Errorf("%s: %s: %+v, %v", body, method, p, err)
			}
		}
	}
}
