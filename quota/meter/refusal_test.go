package meter_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// An answer of the upstream shuts the pool for the time that the book's rules give. The
// rules are those of the test's own book.
func TestRulesOfRefusals(t *testing.T) {
	midnight := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) // in California
	in := func(d time.Duration) time.Time { return noon.Add(d) }
	long := strings.Repeat(" ", 1<<20)
	for _, c := range []struct {
		name   string
		status int
		header http.Header
		body   string
		until  time.Time // zero: it is open
		rule   string    // what it found, as the log has it
	}{
		{"an answer", 200, nil, `{"reason": "dailyLimit"}`, time.Time{}, ""},
		{"a fault of the call's own", 403, nil, `{"reason": "forbidden"}`, time.Time{}, ""},
		{"no rule's status", 500, nil, `{"reason": "dailyLimit"}`, time.Time{}, ""},
		{"a reason", 403, nil, `{"reason": "dailyLimit"}`, midnight, "403 dailyLimit"},
		{"a reason deep inside", 403, nil, `{"error": {"errors": [{"message": "x"}, {"domain": "y", "reason": "quotaExceeded"}]}}`, midnight, "403 quotaExceeded"},
		{"a reason that is no text", 403, nil, `{"reason": {"dailyLimit": 1}, "x": ["reason", "dailyLimit"]}`, time.Time{}, ""},
		{"a reason's name as a value", 403, nil, `{"x": "reason", "y": "dailyLimit"}`, time.Time{}, ""},
		{"a reason after a list", 403, nil, `[{"x": [1, {"y": null}, "z"], "reason": "dailyLimit"}]`, midnight, "403 dailyLimit"},
		{"a reason in escapes", 403, nil, `{"reason": "daily\u004cimit"}`, midnight, "403 dailyLimit"},
		{"a reason in HTML", 403, nil, `<html>"reason": "dailyLimit"</html>`, time.Time{}, ""},
		{"a reason before the text ends", 403, nil, `{"reason": "dailyLimit", "message": "and th`, midnight, "403 dailyLimit"},
		{"a reason in a long text", 403, nil, `{"reason": "dailyLimit", "x": 1` + long, midnight, "403 dailyLimit"},
		{"a reason too far behind", 403, nil, `{"x": 1,` + long + `"reason": "dailyLimit"}`, time.Time{}, ""},
		{"an empty body", 403, nil, "", time.Time{}, ""},
		{"a text", 403, nil, "<b>too fast</b>", in(30 * time.Second), "403 too fast"},
		{"no more than a status", 429, nil, "", in(10 * time.Second), "429"},
		{"Retry-After in seconds", 429, http.Header{"Retry-After": {"77"}}, "", in(77 * time.Second), "429"},
		{"Retry-After in milliseconds", 429, http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"77"}}, "", in(1500 * time.Millisecond), "429"},
		{"Retry-After in milliseconds that are nonsense", 429, http.Header{"Retry-After-Ms": {"soon"}, "Retry-After": {"77"}}, "", in(77 * time.Second), "429"},
		{"Retry-After in 0 milliseconds", 429, http.Header{"Retry-After-Ms": {"0"}}, "", in(time.Second), "429"},
		{"Retry-After at once", 429, http.Header{"Retry-After": {"0"}}, "", in(time.Second), "429"},
		{"Retry-After as a date", 429, http.Header{"Retry-After": {"Fri, 20 Nov 2026 20:05:00 GMT"}}, "", in(5 * time.Minute), "429"},
		{"Retry-After as an older date", 429, http.Header{"Retry-After": {"Friday, 20-Nov-26 20:05:00 GMT"}}, "", in(5 * time.Minute), "429"},
		{"Retry-After in the year 9999", 429, http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}, "", in(10 * time.Second), "429"},
		{"Retry-After in 30 years", 429, http.Header{"Retry-After": {"946080000"}}, "", in(10 * time.Second), "429"},
		{"Retry-After before now", 429, http.Header{"Retry-After": {"-5"}}, "", in(10 * time.Second), "429"},
		{"Retry-After as a date before now", 429, http.Header{"Retry-After": {"Fri, 20 Nov 2026 19:59:00 GMT"}}, "", in(time.Second), "429"},
		{"Retry-After as a date of long ago", 429, http.Header{"Retry-After": {"Thu, 01 Jan 1970 00:00:00 GMT"}}, "", in(time.Second), "429"},
		{"Retry-After that is nonsense", 429, http.Header{"Retry-After": {"soon"}}, "", in(10 * time.Second), "429"},
		{"Retry-After of another answer", 403, http.Header{"Retry-After": {"77"}}, "", time.Time{}, ""},
		{"a header's time", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {fmt.Sprint(in(time.Hour).Unix())}}, "", in(time.Hour), "403 x-ratelimit-remaining: 0"},
		{"a header's time in milliseconds", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {fmt.Sprint(in(time.Hour).UnixMilli())}}, "", in(time.Hour), "403 x-ratelimit-remaining: 0"},
		{"a header's time before now", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {fmt.Sprint(in(-time.Minute).Unix())}}, "", in(time.Second), "403 x-ratelimit-remaining: 0"},
		{"a header's seconds", 403, http.Header{"X-Ratelimit-Remaining": {" 0 "}, "X-Ratelimit-Reset": {"60"}}, "", in(time.Minute), "403 x-ratelimit-remaining: 0"},
		{"a header with another value", 403, http.Header{"X-Ratelimit-Remaining": {"10"}, "X-Ratelimit-Reset": {"60"}}, "", time.Time{}, ""},
		{"a header without a time", 403, http.Header{"X-Ratelimit-Remaining": {"0"}}, "too fast", in(30 * time.Second), "403 too fast"}, // the next rule's
		{"a header whose time is nonsense", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"later"}}, "too fast", in(30 * time.Second), "403 too fast"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, values := range c.header {
					w.Header()[name] = values
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}, nil)
			status, text, err := r.do(t.Context(), "GET", items, "")
			if err != nil || status != c.status || text != c.body {
				t.Errorf("the caller got %d, %.80q, %v", status, text, err)
			}
			r.charged(1)
			u := r.usage("api/units")
			if !u.Blocked.Equal(c.until) || !strings.Contains(r.log.String(), fmt.Sprintf("rule=%q ", c.rule)) && !strings.Contains(r.log.String(), "rule="+c.rule+" ") && c.rule != "" {
				t.Errorf("shut until %s, want %s, by %q:\n%s", u.Blocked, c.until, c.rule, r.log)
			}
			if want := fmt.Sprint(c.status, " ", http.StatusText(c.status)); !c.until.IsZero() && u.Reason != want {
				t.Errorf("the reason is %q, want %q: the answer says no more", u.Reason, want)
			}
			if other := r.usage("api/searches"); !other.Blocked.IsZero() {
				t.Error("so is a pool that the call does not charge")
			}
			if other := r.usage("api@staging/units"); !other.Blocked.IsZero() {
				t.Error("so is another account's")
			}
			if c.until.IsZero() {
				return
			}
			_, _, err = r.do(t.Context(), "GET", items, "")
			if e := refused(t, err); !errors.Is(err, quota.ErrBlocked) || !e.RetryAt.Equal(c.until) {
				t.Errorf("the next call: %v", err)
			}
			r.charged(1)
			r.clock.Set(c.until)
			if _, _, err := r.do(t.Context(), "GET", items, ""); err != nil {
				t.Errorf("it does not open: %v", err)
			}
		})
	}
}

func TestRefusalsByTheUpstream(t *testing.T) {
	spent := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"reason": "dailyLimit"}`)
	}
	t.Run("shut every pool of the call", func(t *testing.T) {
		r := newRig(t, spent, nil)
		r.do(t.Context(), "GET", "http://api.example.com/v1/both", "")
		for _, pool := range []string{"api/units", "api/searches"} {
			if r.usage(pool).Blocked.IsZero() {
				t.Errorf("%s is open", pool)
			}
		}
	})
	t.Run("reach another process that shares the ledger", func(t *testing.T) {
		r := newRig(t, spent, nil)
		r.do(t.Context(), "GET", items, "")
		other := &http.Client{Transport: newTransport(t, r.ledger, &meter.Options{Base: r.base})}
		resp, err := other.Get(items)
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, quota.ErrBlocked) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("are waited out if they are short", func(t *testing.T) {
		first := true
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			if first {
				w.WriteHeader(http.StatusTooManyRequests)
			}
			first = false
		}, &meter.Options{MaxWait: time.Minute})
		r.do(t.Context(), "GET", items, "")
		r.get(items)
		r.charged(2)
	})
	t.Run("stand though the caller has given up", func(t *testing.T) {
		r := newRig(t, nil, nil)
		l, err := quota.New(r.ledger.Book(), impatient{newStore(r.clock)}, &quota.Options{Clock: r.clock})
		if err != nil {
			t.Fatal(err)
		}
		r.ledger = l
		ctx, cancel := context.WithCancel(t.Context())
		r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			cancel()
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"reason": "dailyLimit"}`))}, nil
		})})
		req, _ := http.NewRequestWithContext(ctx, "GET", items, nil)
		r.bare(req)
		if r.usage("api/units").Blocked.IsZero() {
			t.Error("the pool is open")
		}
	})
	t.Run("shut nothing of a call without a price", func(t *testing.T) {
		r := newRig(t, spent, nil)
		req, _ := http.NewRequest("PUT", "http://api.example.com/session?upload_id=7", nil) // a chunk, wherever its session is
		req.Header.Set("Content-Range", "bytes 0-1/2")
		if status, _, err := r.send(req); err != nil || status != http.StatusForbidden {
			t.Errorf("%d, %v", status, err)
		}
		if !r.usage("api/units").Blocked.IsZero() || !strings.Contains(r.log.String(), "403 dailyLimit") {
			t.Errorf("a pool is shut, or nothing was said:\n%s", r.log)
		}
	})
	t.Run("are a line each", func(t *testing.T) {
		r := newRig(t, spent, nil)
		r.do(t.Context(), "GET", items, "")
		got := r.log.String()
		for _, want := range []string{"level=WARN", `msg="refused by the upstream"`, "pool=api/units", `rule="403 dailyLimit"`, `reason="403 Forbidden"`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in\n%s", want, got)
			}
		}
	})
	t.Run("may be compressed for a caller who asked for it", func(t *testing.T) {
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusForbidden)
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"reason": "dailyLimit"}`)
			z.Close()
		}, nil)
		req, _ := http.NewRequest("GET", items, nil)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || string(text) != `{"reason": "dailyLimit"}` {
			t.Errorf("the caller got %q, %v", text, err)
		}
		if r.usage("api/units").Blocked.IsZero() {
			t.Error("the pool is open")
		}
	})
	t.Run("that end half-way end so for the caller, and are read as far as they go", func(t *testing.T) {
		const half = `{"reason": "dailyLimit", "mess`
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, half)
		}, nil)
		_, text, err := r.do(t.Context(), "GET", items, "")
		if text != half || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the caller got %q, %v", text, err)
		}
		if r.usage("api/units").Blocked.IsZero() {
			t.Error("the pool is open")
		}
	})
	t.Run("whose body fails once fail for the caller", func(t *testing.T) {
		failed := errors.New("failed")
		r := newRig(t, nil, nil)
		r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			body := io.MultiReader(strings.NewReader("ha"), &failsOnce{err: failed})
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: io.NopCloser(body)}, nil
		})})
		if _, text, err := r.do(t.Context(), "GET", items, ""); text != "ha" || !errors.Is(err, failed) {
			t.Errorf("the caller got %q, %v", text, err)
		}
	})
	t.Run("of a key are errors, and shut nothing", func(t *testing.T) {
		body := &closing{Reader: strings.NewReader("{}")}
		r := newRig(t, nil, nil)
		r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusUnauthorized, Body: body, Header: http.Header{}}, nil
		})})
		_, _, err := r.do(t.Context(), "GET", items, "")
		var e *meter.CredentialError
		if !errors.As(err, &e) || !errors.Is(err, meter.ErrCredential) || e.Status != 401 || e.Account != "default" || e.Upstream != "api" {
			t.Errorf("error %v", err)
		}
		if !body.closed.Load() {
			t.Error("the body of the answer stays open")
		}
		r.charged(1)
		if !r.usage("api/units").Blocked.IsZero() {
			t.Error("the pool is shut")
		}
	})
	t.Run("without a body, of a base that has none", func(t *testing.T) {
		for status, want := range map[int]error{http.StatusUnauthorized: meter.ErrCredential, http.StatusForbidden: nil, http.StatusTooManyRequests: nil} {
			r := newRig(t, nil, &meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status}, nil
			})})
			if _, _, err := r.do(t.Context(), "GET", items, ""); !errors.Is(err, want) {
				t.Errorf("%d: error %v, want %v", status, err, want)
			}
		}
	})
	t.Run("in a daily quota's first minutes are of the day before", func(t *testing.T) {
		r := newRig(t, spent, nil)
		midnight := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
		r.clock.Set(midnight.Add(5 * time.Minute))
		r.do(t.Context(), "GET", items, "")
		if got, want := r.usage("api/units").Blocked, midnight.Add(15*time.Minute); !got.Equal(want) {
			t.Errorf("shut until %s, want %s", got, want)
		}
	})
	t.Run("are not read where nobody asks for their text", func(t *testing.T) {
		body := &unread{t: t}
		r := newRig(t, nil, nil)
		r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: body, Header: http.Header{}}, nil
		})})
		req, _ := http.NewRequest("GET", items, nil)
		r.bare(req)
	})
}

// failsOnce ends after it has failed.
type failsOnce struct{ err error }

func (f *failsOnce) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

// impatient is a store that blocks nothing for whoever has given up.
type impatient struct{ quota.Store }

func (s impatient) Block(ctx context.Context, b quota.BlockRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Block(ctx, b)
}

type unread struct{ t *testing.T }

func (u *unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}
func (u *unread) Close() error { return nil }

// The shapes that Google's refusals have been seen in, by the built-in book.
func TestYouTubeRefusals(t *testing.T) {
	const help = "The request cannot be completed because you have exceeded your <a href=\\\"/youtube/v3/getting-started#quota\\\">quota</a>."
	old := func(domain, reason, message string) string {
		return fmt.Sprintf(`{"error": {"code": 403, "message": "%[3]s", "errors": [{"message": "%[3]s", "domain": "%[1]s", "reason": "%[2]s"}]}}`, domain, reason, message)
	}
	recent := func(message, details string) string {
		return fmt.Sprintf(`{"error": {"code": 429, "message": "%[1]s", "errors": [{"message": "%[1]s", "domain": "global", "reason": "rateLimitExceeded"}], "status": "RESOURCE_EXHAUSTED"%[2]s}}`, message, details)
	}
	info := func(reason, metadata string) string {
		return fmt.Sprintf(`, "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": %q, "domain": "googleapis.com", "metadata": {%s}}]`, reason, metadata)
	}
	const perDay = "Quota exceeded for quota metric 'Search Queries' and limit 'Search Queries per day' of service 'youtube.googleapis.com' for consumer 'project_number:1'."
	const perMinute = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'youtube.googleapis.com' for consumer 'project_number:1'."
	type outcome string
	const (
		reset      outcome = "reset"
		backoff    outcome = "backoff"
		credential outcome = "credential"
		open       outcome = "open"
	)
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   outcome
	}{
		{"the default pool", 403, old("youtube.quota", "quotaExceeded", help), reset},
		{"older", 403, old("usageLimits", "dailyLimitExceeded", "Daily Limit Exceeded"), reset},
		{"a new pool, by its message", 429, recent(perDay, ""), reset},
		{"a new pool, by its unit", 429, recent("Quota exceeded", info("RATE_LIMIT_EXCEEDED", `"quota_unit": "1/d/{project}", "quota_limit_value": "100"`)), reset},
		{"the same without spaces", 429, `{"error":{"code":429,"details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_unit":"1/d/{project}"}}]}}`, reset},
		{"a burst", 429, recent(perMinute, info("RATE_LIMIT_EXCEEDED", `"quota_unit": "1/min/{project}"`)), backoff},
		{"a burst, by its message", 429, recent(perMinute, ""), backoff},
		{"a burst, bare", 429, "", backoff},
		{"an older burst", 403, old("usageLimits", "rateLimitExceeded", "Rate Limit Exceeded"), backoff},
		{"an older burst of a user", 403, old("usageLimits", "userRateLimitExceeded", "User Rate Limit Exceeded"), backoff},
		{"a key for other services", 403, `{"error": {"code": 403, "message": "Requests to this API are blocked.", "status": "PERMISSION_DENIED"` + info("API_KEY_SERVICE_BLOCKED", `"service": "youtube.googleapis.com"`) + "}}", credential},
		{"a key for other addresses", 403, `{"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"` + info("API_KEY_IP_ADDRESS_BLOCKED", "") + "}}", credential},
		{"an invalid key", 400, `{"error": {"code": 400, "message": "API key not valid.", "errors": [{"reason": "badRequest"}], "status": "INVALID_ARGUMENT"` + info("API_KEY_INVALID", "") + "}}", credential},
		{"an API that is not enabled", 403, old("usageLimits", "accessNotConfigured", "not enabled"), credential},
		{"a token that has expired", 401, `{"error": {"code": 401, "errors": [{"reason": "authError"}]}}`, credential},
		{"comments that are off", 403, old("youtube.commentThread", "commentsDisabled", "off"), open},
		{"a chart that is not there", 400, old("youtube.video", "videoChartNotFound", "no"), open},
		{"a parameter that is wrong", 400, old("global", "badRequest", "no"), open},
	} {
		for _, generation := range []string{"builtin", "builtin/youtube-2025"} {
			t.Run(c.name+", "+generation, func(t *testing.T) {
				r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(c.status)
					io.WriteString(w, c.body)
				}, nil)
				text, _ := headroom.ReadBuiltin(generation)
				b, err := book.Parse(generation, text, &book.Options{Builtins: headroom.ReadBuiltin})
				if err != nil {
					t.Fatal(err)
				}
				if err := r.ledger.SetBook(b); err != nil {
					t.Fatal(err)
				}
				_, got, err := r.do(t.Context(), "GET", "http://youtube.googleapis.com/youtube/v3/search", "")
				pool := "youtube/searches"
				if generation != "builtin" {
					pool = "youtube/units"
				}
				blocked := r.usage(pool).Blocked
				var is outcome
				switch {
				case errors.Is(err, meter.ErrCredential) && blocked.IsZero():
					is = credential
				case err != nil || got != c.body:
					t.Errorf("the caller got %q, %v", got, err)
				case blocked.Equal(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)):
					is = reset
				case blocked.Equal(noon.Add(30 * time.Second)):
					is = backoff
				case blocked.IsZero():
					is = open
				}
				if diff := cmp.Diff(c.want, is); diff != "" {
					t.Errorf("outcome (-want +got), shut until %s:\n%s", blocked, diff)
				}
			})
		}
	}
}

// FuzzRefusal: whatever an upstream answers, the caller reads it as it was, and
// no block is longer than a year and a day.
func FuzzRefusal(f *testing.F) {
	for _, body := range []string{
		"", "{", `{"reason": "dailyLimit"}`, `{"a":[{"reason":"quotaExceeded"}]}`, "too fast", "\x1f\x8b\x08", `[[[[`, `]`, `{"reason"`, `"reason"`,
		`{"reason": {"reason": "dailyLimit"}}`, "null", `{"reason":1}`, "{}{}{}", `{"reason":"dailyLimit"`,
	} {
		f.Add(403, body, "0", "60", "", false)
		f.Add(429, body, "", "Fri, 20 Nov 2026 20:05:00 GMT", "1795000000", true)
	}
	f.Fuzz(func(t *testing.T, status int, body, remaining, after, reset string, zipped bool) {
		clock := quota.NewSimClock(noon)
		l := newLedger(t, prices, clock)
		m := newTransport(t, l, &meter.Options{Logger: discard, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			h := http.Header{"X-Ratelimit-Remaining": {remaining}, "Retry-After": {after}, "X-Ratelimit-Reset": {reset}}
			if zipped {
				h.Set("Content-Encoding", "gzip")
			}
			return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
		})})
		req, _ := http.NewRequest("GET", items, nil)
		resp, err := m.RoundTrip(req)
		if err != nil {
			if !errors.Is(err, meter.ErrCredential) {
				t.Fatal(err)
			}
			return
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body {
			t.Errorf("the caller reads %q, %v", got, err)
		}
		all, err := l.View().Usage(t.Context(), "api", "default")
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range all {
			if u.Blocked.Sub(noon) > 366*24*time.Hour {
				t.Errorf("shut until %s", u.Blocked)
			}
			if status != 403 && status != 429 && !u.Blocked.IsZero() {
				t.Errorf("status %d shuts %s", status, u.Pool)
			}
		}
	})
}
