package meter_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// reports is a book with one pool and one report in it.
func reports(feedback string) string {
	return `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [{status: 403, for: 1m}]
    feedback: [` + feedback + `]
    pools:
      core: {quota: 5000, windows: [{per: 1h}]}
      search: {quota: 5000, windows: [{per: 1h}]}
    methods: {get: {route: GET /get, charge: {core: 1}}}
`
}

// answering is a handler that gives an answer at noon by the upstream's clock.
func answering(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", noon.Format(http.TimeFormat))
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// learnt returns what is used of a pool, after one call.
func learnt(t *testing.T, text, pool string, answer http.HandlerFunc) (*rig, int64) {
	t.Helper()
	r := priced(t, text, answer)
	if _, _, err := r.do(t.Context(), "GET", "http://api.example.com/get", ""); err != nil {
		t.Fatal(err)
	}
	if err := r.ledger.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, r.used("api/" + pool)
}

func TestWhatAnswersReport(t *testing.T) {
	const left = "remaining: {header: X-Left}"
	for _, c := range []struct {
		name, feedback string
		answer         http.HandlerFunc
		want           int64 // used
	}{
		{"remaining", "pool: core, " + left, answering(200, "", "X-Left", "4900"), 100},
		{"of a refusal", "pool: core, " + left, answering(403, "", "X-Left", "4900"), 100},
		{"of a redirect that leads nowhere", "pool: core, " + left, answering(304, "", "X-Left", "4900"), 100},
		{"a fraction of what is left", "pool: core, " + left, answering(200, "", "X-Left", "4899.7"), 101},
		{"-1", "pool: core, " + left, answering(200, "", "X-Left", "-1"), 1},
		{"nonsense", "pool: core, " + left, answering(200, "", "X-Left", "lots"), 1},
		{"nothing", "pool: core, " + left, answering(200, ""), 1},
		{"used", "pool: core, used: {header: X-Used}", answering(200, "", "X-Used", "100"), 100},
		{"a fraction of what is used", "pool: core, used: {header: X-Used}", answering(200, "", "X-Used", "99.2"), 100},
		{"a percentage in JSON", "pool: core, used_percent: {header: X-Usage, json: calls}", answering(200, "", "X-Usage", `{"calls": 2, "time": 50}`), 100},
		{"a match", "pool: core, used: {header: Info, match: 'api-usage=(\\d+)/'}", answering(200, "", "Info", "api-usage=100/5000; x=1"), 100},
		{"a lowered limit", "pool: core, limit: {header: X-Limit}, " + left, answering(200, "", "X-Limit", "1000", "X-Left", "900"), 100},
		{"a pool that the answer names", "pool: {header: X-Pool, names: {main: core}}, " + left, answering(200, "", "X-Pool", "main", "X-Left", "4900"), 100},
		{"a pool that the answer names as we do", "pool: {header: X-Pool}, " + left, answering(200, "", "X-Pool", "core", "X-Left", "4900"), 100},
		{"another pool", "pool: {header: X-Pool, names: {main: core, code: search}}, " + left, answering(200, "", "X-Pool", "code", "X-Left", "4900"), 1},
		{"a pool that nobody knows", "pool: {header: X-Pool, names: {main: core}}, " + left, answering(200, "", "X-Pool", "core", "X-Left", "4900"), 1},
		{"in the body", "pool: core, remaining: {body: rate.left}", answering(200, `{"rate": {"left": 4900}}`, "Content-Type", "application/json"), 100},
		{"in a body without it", "pool: core, remaining: {body: rate.left}", answering(200, `{"rate": {}}`, "Content-Type", "application/json"), 1},
		{"in the body of a refusal", "pool: core, remaining: {body: rate.left}", answering(403, `{"rate": {"left": 4900}}`), 100},
		{"in a stream", "pool: core, remaining: {body: left}", answering(200, "data: {\"left\": 4950}\n\ndata: {\"left\": 4900}\n\n", "Content-Type", "text/event-stream"), 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got := learnt(t, reports("{"+c.feedback+"}"), "core", c.answer); got != c.want {
				t.Errorf("%d are used, want %d", got, c.want)
			}
		})
	}
}

// Units of others leave at the reset, however the answer writes it, and whatever the
// upstream's clock says.
func TestResetsOfReports(t *testing.T) {
	at := noon.Add(20 * time.Minute)
	skewed := at.Add(time.Hour)
	for _, c := range []struct {
		as, text string
		date     time.Time
		ignored  bool // the report is of a window that has ended
	}{
		{"unix", fmt.Sprint(at.Unix()), noon, false},
		{"unix", fmt.Sprint(at.Unix()) + ".25", noon, false},
		{"unix", fmt.Sprint(skewed.Unix()), noon.Add(time.Hour), false},
		{"unix", fmt.Sprint(noon.Unix() - 1), noon, true},
		{"unix_ms", fmt.Sprint(at.UnixMilli()), noon, false},
		{"unix", "0", noon, true}, // now
		{"unix_ms", "0", noon, true},
		{"seconds", "0", noon, true},
		{"seconds", "0.0", noon, true},
		{"seconds", "-3", noon, true},
		{"minutes", "0", noon, true},
		{"duration", "0s", noon, true},
		{"duration", "-1m", noon, true},
		{"rfc3339", "1970-01-01T00:00:00Z", noon, true},
		{"rfc3339", noon.Add(-time.Hour).Format(time.RFC3339), noon, true},
		{"http_date", "Thu, 01 Jan 1970 00:00:00 GMT", noon, true},
		{"retry_after", "0", noon, true},
		{"seconds", "1200", noon, false},
		{"seconds", "1199.5", noon.Add(time.Hour), false},
		{"minutes", "20", noon, false},
		{"duration", "20m0s", noon, false},
		{"duration", "1200000ms", noon.Add(-time.Hour), false},
		{"rfc3339", at.Format(time.RFC3339), noon, false},
		{"rfc3339", at.Add(500 * time.Millisecond).In(time.FixedZone("", 7200)).Format(time.RFC3339Nano), noon, false},
		{"http_date", skewed.Format(http.TimeFormat), noon.Add(time.Hour), false},
		{"retry_after", "1200", noon, false},
		{"retry_after", at.Format(http.TimeFormat), noon, false},
	} {
		t.Run(c.as+" "+c.text, func(t *testing.T) {
			text := reports("{pool: core, remaining: {header: X-Left}, reset: {header: X-Reset, as: " + c.as + "}}")
			r, used := learnt(t, text, "core", answering(200, "", "X-Left", "4900", "X-Reset", c.text, "Date", c.date.UTC().Format(http.TimeFormat)))
			if want := map[bool]int64{false: 100, true: 1}[c.ignored]; used != want {
				t.Fatalf("%d are used, want %d", used, want)
			}
			r.clock.Set(at.Add(-2 * time.Second))
			if got := r.used("api/core"); got != used {
				t.Errorf("%d are used before the reset, want %d", got, used)
			}
			r.clock.Set(at.Add(5 * time.Second))
			if got := r.used("api/core"); got != 1 {
				t.Errorf("%d are used after the reset, want our own", got)
			}
		})
	}
}

// A limit that the upstream has lowered is in the log, once.
func TestALoweredLimitIsInTheLog(t *testing.T) {
	r, _ := learnt(t, reports("{pool: core, limit: {header: X-Limit}, remaining: {header: X-Left}, reset: {header: X-Reset, as: seconds}}"), "core",
		answering(200, "", "X-Limit", "1000", "X-Left", "900", "X-Reset", "1200"))
	r.get("http://api.example.com/get")
	if got := strings.Count(r.log.String(), "the upstream reports another limit"); got != 1 || !strings.Contains(r.log.String(), "limit=1000 quota=5000") {
		t.Errorf("it is there %d times, want once:\n%s", got, r.log)
	}
}

// A refusal that comes with status 200 shuts the pool as soon as the caller has read it,
// and no byte waits for it.
func TestRefusalsInAnswersThatAreNoErrors(t *testing.T) {
	const text = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals:
      - {status: 200, body: THROTTLED, pools: core, for: 1m}
      - {status: 200, reason: costExceeded, pools: search, until: {body: error.at, as: rfc3339}}
    pools: {core: {quota: 100, windows: [{per: 1h}]}, search: {quota: 100, windows: [{per: 1h}]}}
    methods: {get: {route: GET /get, charge: {core: 1, search: 1}}}
`
	t.Run("in a stream", func(t *testing.T) {
		more := make(chan string)
		r := priced(t, text, func(w http.ResponseWriter, req *http.Request) {
			for {
				select {
				case piece, ok := <-more:
					if !ok {
						return
					}
					io.WriteString(w, piece)
					w.(http.Flusher).Flush()
				case <-req.Context().Done():
					return
				}
			}
		})
		defer close(more)
		go func() { more <- "first\n" }()
		resp, err := r.client.Get("http://api.example.com/get")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		read := func() string {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line
		}
		if got := read(); got != "first\n" || !r.usage("api/core").Blocked.IsZero() {
			t.Fatalf("read %q; shut: %v", got, r.usage("api/core").Blocked)
		}
		go func() { more <- `{"errors": [{"code": "THRO`; more <- "TTLED\"}]}\n" }()
		read()
		r.flush()
		if got := r.usage("api/core").Blocked; !got.Equal(noon.Add(time.Minute)) {
			t.Errorf("shut until %s while the answer goes on, want a minute", got)
		}
		if got := r.usage("api/search").Blocked; !got.IsZero() {
			t.Errorf("search is shut until %s", got)
		}
	})
	for _, c := range []struct {
		name, body string
		core, sea  time.Time
	}{
		{"none", `{"data": []}`, time.Time{}, time.Time{}},
		{"a text", `{"errors": [{"code": "THROTTLED"}]}`, noon.Add(time.Minute), time.Time{}},
		{"a reason and a time", `{"error": {"reason": "costExceeded", "at": "2026-11-20T20:05:00Z"}}`, time.Time{}, noon.Add(5 * time.Minute)},
		{"a reason without a time", `{"error": {"reason": "costExceeded"}}`, time.Time{}, time.Time{}},
		{"too far behind", strings.Repeat(" ", 1<<20) + "THROTTLED", time.Time{}, time.Time{}},
	} {
		t.Run(c.name+", in gzip", func(t *testing.T) {
			r := priced(t, text, answering(200, zipped(c.body), "Content-Encoding", "gzip"))
			resp := r.getZipped("http://api.example.com/get")
			got, err := io.ReadAll(resp.Body)
			if resp.Body.Close(); err != nil || string(got) != zipped(c.body) {
				t.Fatalf("the caller got %.80q, %v", got, err)
			}
			r.flush()
			if core, sea := r.usage("api/core").Blocked, r.usage("api/search").Blocked; !core.Equal(c.core) || !sea.Equal(c.sea) {
				t.Errorf("shut until %s and %s, want %s and %s", core, sea, c.core, c.sea)
			}
		})
		t.Run(c.name, func(t *testing.T) {
			r := priced(t, text, answering(200, c.body))
			if _, got, err := r.do(t.Context(), "GET", "http://api.example.com/get", ""); err != nil || got != c.body {
				t.Fatalf("the caller got %.80q, %v", got, err)
			}
			r.flush()
			if core, sea := r.usage("api/core").Blocked, r.usage("api/search").Blocked; !core.Equal(c.core) || !sea.Equal(c.sea) {
				t.Errorf("shut until %s and %s, want %s and %s", core, sea, c.core, c.sea)
			}
		})
	}
	t.Run("in a stream that is compressed by request", func(t *testing.T) {
		release := make(chan struct{})
		r := priced(t, text, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for _, piece := range []string{`{"errors": [{"code": "THRO`, `TTLED"}]}`} {
				io.WriteString(z, piece)
				z.Flush()
				w.(http.Flusher).Flush()
			}
			<-release
		})
		defer close(release)
		resp := r.getZipped("http://api.example.com/get") // it hangs if it is held back
		defer resp.Body.Close()
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(z, make([]byte, len(`{"errors": [{"code": "THROTTLED"}]}`))); err != nil {
			t.Fatal(err)
		}
		r.flush()
		if got := r.usage("api/core").Blocked; !got.Equal(noon.Add(time.Minute)) {
			t.Errorf("shut until %s while the answer goes on, want a minute", got)
		}
	})
}

// zipped returns a text in gzip.
func zipped(text string) string {
	var to strings.Builder
	z := gzip.NewWriter(&to)
	io.WriteString(z, text)
	z.Close()
	return to.String()
}

// getZipped gets an answer whose gzip net/http leaves alone, because the caller asks for it.
func (r *rig) getZipped(url string) *http.Response {
	r.t.Helper()
	req, _ := http.NewRequestWithContext(r.t.Context(), "GET", url, nil)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

// The answer names the pool, and says when it opens in the form that the rule gives.
func TestTimesAndPoolsOfRefusals(t *testing.T) {
	at := noon.Add(5 * time.Minute)
	for _, c := range []struct {
		name, rule string
		header     []string
		body       string
		core, sea  time.Duration // shut for so long
	}{
		{"a fraction of seconds", "{status: 429, for: 10s}", []string{"Retry-After", "1.5"}, "", 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"less than a second", "{status: 429, for: 10s}", []string{"Retry-After", "0.25"}, "", 250 * time.Millisecond, 250 * time.Millisecond},
		{"no time at all", "{status: 429, for: 10s}", []string{"Retry-After", "0.0"}, "", 10 * time.Second, 10 * time.Second},
		{"by the upstream's clock", "{status: 429, until: {header: X-Reset, as: unix}}", []string{"X-Reset", fmt.Sprint(at.Add(time.Hour).Unix()), "Date", noon.Add(time.Hour).Format(http.TimeFormat)}, "", 5 * time.Minute, 5 * time.Minute},
		{"in the past", "{status: 429, until: {header: X-Reset, as: unix}}", []string{"X-Reset", fmt.Sprint(noon.Add(-time.Minute).Unix())}, "", time.Second, time.Second},
		{"in the body", "{status: 429, until: {body: retry_after, as: seconds}}", nil, `{"retry_after": 0.75}`, 750 * time.Millisecond, 750 * time.Millisecond},
		{"minutes in JSON", "{status: 429, until: {header: X-Usage, json: a.0.minutes, as: minutes}}", []string{"X-Usage", `{"a": [{"minutes": 3}]}`}, "", 3 * time.Minute, 3 * time.Minute},
		{"a form that it does not have", "{status: 429, until: {header: X-Reset, as: rfc3339}}", []string{"X-Reset", "300"}, "", 0, 0},
		{"a time that cannot be meant", "{status: 429, until: {header: X-Reset, as: seconds}}", []string{"X-Reset", "1e99"}, "", 0, 0},
		{"-1", "{status: 429, until: {header: X-Reset, as: seconds}}", []string{"X-Reset", "-1"}, "", 0, 0},
		{"a pool by its name", "{status: 429, pool: {header: X-Pool, names: {code_search: search}}, for: 1m}", []string{"X-Pool", "code_search"}, "", 0, time.Minute},
		{"a pool in the body", "{status: 429, pool: {body: bucket}, for: 1m}", nil, `{"bucket": "core"}`, time.Minute, 0},
		{"no pool", "{status: 429, pool: {header: X-Pool}, for: 1m}", []string{"X-Pool", "graphql"}, "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := priced(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [`+c.rule+`]
    pools: {core: {quota: 100, windows: [{per: 1h}]}, search: {quota: 100, windows: [{per: 1h}]}}
    methods: {get: {route: GET /get, charge: {core: 1, search: 1}}}
`, answering(429, c.body, c.header...))
			if _, got, err := r.do(t.Context(), "GET", "http://api.example.com/get", ""); err != nil || got != c.body {
				t.Fatalf("the caller got %.80q, %v", got, err)
			}
			for pool, want := range map[string]time.Duration{"core": c.core, "search": c.sea} {
				until := time.Time{}
				if want > 0 {
					until = noon.Add(want)
				}
				if got := r.usage("api/" + pool).Blocked; !got.Equal(until) {
					t.Errorf("%s is shut until %s, want %s", pool, got, until)
				}
			}
		})
	}
}

// Two clients share a ledger with somebody who does not. The upstream counts by the hour,
// and refuses none of ours.
func TestNobodyIsRefusedThoughOthersSpend(t *testing.T) {
	const quotaOf = 500
	var counted, refused int64
	var clock *quota.SimClock
	ends := noon.Add(time.Hour)
	server := func(w http.ResponseWriter, _ *http.Request) {
		now := clock.Now()
		if !now.Before(ends) {
			ends, counted = ends.Add(time.Hour), 0
		}
		w.Header().Set("Date", now.Format(http.TimeFormat))
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(ends.Unix()))
		status := http.StatusOK
		if counted++; counted > quotaOf {
			counted--
			status = http.StatusForbidden
			refused++
		}
		w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(quotaOf-counted))
		w.WriteHeader(status)
	}
	text := `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    feedback: [{pool: core, remaining: {header: X-RateLimit-Remaining}, reset: {header: X-RateLimit-Reset, as: unix}}]
    pools: {core: {quota: 500, windows: [{per: 1h}]}}
    methods: {get: {route: GET /get, charge: {core: 1}}}
`
	r := priced(t, text, server)
	clock = r.clock
	clients := []*http.Client{r.client, {Transport: newTransport(t, r.ledger, &meter.Options{Base: r.base, Logger: discard})}}
	ours := 0
	for i := range 3600 {
		clock.Advance(3 * time.Second) // three hours
		if i%120 == 0 {
			counted = min(counted+15, quotaOf) // others
		}
		resp, err := clients[i%2].Get("http://api.example.com/get")
		if err != nil {
			if !errors.Is(err, quota.ErrRefused) {
				t.Fatal(err)
			}
			continue
		}
		resp.Body.Close()
		ours++
	}
	t.Logf("ours %d in three hours; %d refused", ours, refused)
	if refused > 3 { // once a window, those in flight
		t.Errorf("the upstream refused %d calls", refused)
	}
	if ours < 3*350*95/100 {
		t.Errorf("ours are %d, want nearly all that others left", ours)
	}
}

// standard is a book whose answers have the fields of the IETF.
const standard = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    feedback: ietf
    pools:
      core: {windows: [{per: 1m, quota: 100}, {per: 1h, quota: 5000}]}
      search: {quota: 30, windows: [{per: 1m}]}
    methods: {get: {route: GET /get, pool: core, cost: 1}}
`

func TestWhatTheStandardFieldsReport(t *testing.T) {
	for _, c := range []struct {
		name         string
		answer       http.HandlerFunc
		core, search int64 // used
	}{
		{"the newest form", answering(200, "", "RateLimit-Policy", `"burst";q=100;w=60, "long";q=5000;w=3600`, "RateLimit", `"burst";r=40;t=30`), 60, 0},
		{"several at once", answering(200, "", "RateLimit", `"core-1m";r=40;t=30, "search";r=10;t=30`), 60, 20},
		{"of a refusal", answering(429, "", "RateLimit-Policy", `"burst";q=100;w=60`, "RateLimit", `"burst";r=0;t=30`, "Retry-After", "40"), 100, 0},
		{"draft 07", answering(200, "", "RateLimit-Policy", "100;w=60, 5000;w=3600", "RateLimit", "limit=100, remaining=40, reset=30"), 60, 0},
		{"drafts 03 to 06", answering(200, "", "RateLimit-Policy", "100;w=60", "RateLimit-Limit", "100", "RateLimit-Remaining", "40", "RateLimit-Reset", "30"), 60, 0},
		{"a policy that the book does not know", answering(200, "", "RateLimit-Policy", `"x";q=7;w=5`, "RateLimit", `"x";r=1;t=5`), 1, 0},
		{"malformed", answering(200, "", "RateLimit", `"burst;r=40`), 1, 0},
		{"nothing", answering(200, ""), 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, core := learnt(t, standard, "core", c.answer)
			if search := r.used("api/search"); core != c.core || search != c.search {
				t.Errorf("used: core %d, search %d; want %d and %d", core, search, c.core, c.search)
			}
		})
	}
}

func TestAStandardLimitBelowTheBookHolds(t *testing.T) {
	r, _ := learnt(t, standard, "search", answering(200, "", "RateLimit-Policy", `"search";q=12;w=60`))
	usage, err := r.ledger.View().Usage(t.Context(), "api", "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range usage {
		if u.Pool.Name == "search" && u.Windows[0].Limit != 12 {
			t.Errorf("the limit of search is %d, want the 12 of the answer", u.Windows[0].Limit)
		}
	}
}
