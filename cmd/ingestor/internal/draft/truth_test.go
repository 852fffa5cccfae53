package draft

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/quota/book"
)

// limiter is an upstream with one limit or two, which it tells in a form of its own.
type limiter struct {
	algorithm string // fixed, first (from the first call), bucket
	quota     int64
	per       time.Duration
	burst     int64

	left  float64
	until time.Time
	last  time.Time
}

// take takes a call, or refuses it, and returns what is left and when more is.
func (s *limiter) take(now time.Time, cost int64) (ok bool, left int64, until time.Time) {
	if s.algorithm == "bucket" {
		rate := float64(s.quota) / s.per.Seconds()
		if s.last.IsZero() {
			s.left = float64(s.burst)
		} else {
			s.left = math.Min(float64(s.burst), s.left+rate*now.Sub(s.last).Seconds())
		}
		s.last = now
		if ok = s.left >= float64(cost); ok {
			s.left -= float64(cost)
		}
		return ok, int64(s.left), now.Add(time.Duration((float64(s.burst) - s.left) / rate * float64(time.Second)))
	}
	if !now.Before(s.until) {
		s.left = float64(s.quota)
		if s.until = now.Add(s.per); s.algorithm == "fixed" {
			s.until = now.Truncate(s.per).Add(s.per)
		}
	}
	if ok = s.left >= float64(cost); ok {
		s.left -= float64(cost)
	}
	return ok, int64(s.left), s.until
}

// form is how an upstream tells its limits. Most copy a form that a public API has.
type form struct {
	name      string
	algorithm string
	quotas    []int64
	pers      []time.Duration
	bursts    bool // the burst is not the quota
	tell      func(x *record.Exchange, s *limiter, left int64, until time.Time)
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(max(d.Seconds(), 0))), 10)
}

// three writes the usual three headers.
func three(limit, remaining, reset string, as func(x *record.Exchange, until time.Time) string) func(*record.Exchange, *limiter, int64, time.Time) {
	return func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		full := s.quota
		if s.burst > 0 {
			full = s.burst
		}
		if limit != "" {
			x.Header[limit] = fmt.Sprint(full)
		}
		x.Header[remaining] = fmt.Sprint(left)
		if reset != "" {
			x.Header[reset] = as(x, until)
		}
	}
}

func unix(_ *record.Exchange, t time.Time) string {
	return fmt.Sprint(int64(math.Ceil(float64(t.UnixMilli()) / 1000)))
}
func togo(x *record.Exchange, t time.Time) string { return seconds(t.Sub(x.At)) }

var forms = []form{
	{"GitHub REST", "first", []int64{5000, 15000, 60}, []time.Duration{time.Hour}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		three("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", unix)(x, s, left, until)
		x.Header["X-Ratelimit-Used"], x.Header["X-Ratelimit-Resource"] = fmt.Sprint(s.quota-left), "core"
	}},
	{"X", "first", []int64{900, 300, 180}, []time.Duration{15 * time.Minute}, false, three("X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", unix)},
	{"Reddit, with a limit", "fixed", []int64{1000, 600}, []time.Duration{10 * time.Minute}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		x.Header["X-Ratelimit-Used"], x.Header["X-Ratelimit-Remaining"], x.Header["X-Ratelimit-Limit"] = fmt.Sprint(s.quota-left), fmt.Sprintf("%d.0", left), fmt.Sprint(s.quota)
		x.Header["X-Ratelimit-Reset"] = togo(x, until)
	}},
	{"Twitch", "bucket", []int64{800}, []time.Duration{time.Minute}, false, three("Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", unix)},
	{"OpenAI", "bucket", []int64{500, 3500, 10000}, []time.Duration{time.Minute}, false, three("X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", func(x *record.Exchange, t time.Time) string {
		return t.Sub(x.At).Truncate(time.Millisecond).String()
	})},
	{"Anthropic", "bucket", []int64{50, 1000, 4000}, []time.Duration{time.Minute}, false, three("Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset", func(_ *record.Exchange, t time.Time) string {
		return t.UTC().Truncate(time.Second).Format(time.RFC3339)
	})},
	{"Linear", "first", []int64{1500, 5000}, []time.Duration{time.Hour}, false, three("X-Ratelimit-Requests-Limit", "X-Ratelimit-Requests-Remaining", "X-Ratelimit-Requests-Reset", func(_ *record.Exchange, t time.Time) string { return fmt.Sprint(t.UnixMilli()) })},
	{"Shopify REST", "bucket", []int64{2, 4}, []time.Duration{time.Second}, true, func(x *record.Exchange, s *limiter, left int64, _ time.Time) {
		x.Header["X-Shopify-Shop-Api-Call-Limit"] = fmt.Sprintf("%d/%d", s.burst-left, s.burst)
	}},
	{"Shopify GraphQL", "bucket", []int64{50, 100}, []time.Duration{time.Second}, true, func(x *record.Exchange, s *limiter, left int64, _ time.Time) {
		x.Body = map[string]string{
			"extensions.cost.actualQueryCost": "1", "extensions.cost.throttleStatus.maximumAvailable": fmt.Sprint(s.burst), "extensions.cost.throttleStatus.currentlyAvailable": fmt.Sprint(left),
			"extensions.cost.throttleStatus.restoreRate": fmt.Sprint(s.quota),
		}
	}},
	{"GitHub GraphQL", "first", []int64{5000}, []time.Duration{time.Hour}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		x.Body = map[string]string{"data.rateLimit.limit": fmt.Sprint(s.quota), "data.rateLimit.cost": "1", "data.rateLimit.remaining": fmt.Sprint(left), "data.rateLimit.resetAt": until.UTC().Format(time.RFC3339)}
	}},
	{"HubSpot", "fixed", []int64{100, 190}, []time.Duration{10 * time.Second}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		three("X-Hubspot-Ratelimit-Max", "X-Hubspot-Ratelimit-Remaining", "", nil)(x, s, left, until)
		x.Header["X-Hubspot-Ratelimit-Interval-Milliseconds"] = fmt.Sprint(s.per.Milliseconds())
	}},
	{"Kong", "fixed", []int64{5, 60, 600}, []time.Duration{time.Minute}, false, three("X-Ratelimit-Limit-Minute", "X-Ratelimit-Remaining-Minute", "", nil)},
	{"Discord", "first", []int64{5, 50}, []time.Duration{time.Second, 5 * time.Second, 10 * time.Second}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		three("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "", nil)(x, s, left, until)
		x.Header["X-Ratelimit-Reset"] = fmt.Sprintf("%.3f", float64(until.UnixMilli())/1000)
		x.Header["X-Ratelimit-Reset-After"] = fmt.Sprintf("%.3f", until.Sub(x.At).Seconds())
		x.Header["X-Ratelimit-Bucket"] = "xabcdef"
	}},
	{"draft 11 of the IETF", "fixed", []int64{60, 100, 1000}, []time.Duration{time.Minute, time.Hour}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		x.Header["Ratelimit-Policy"] = fmt.Sprintf(`"default";q=%d;w=%d`, s.quota, int(s.per.Seconds()))
		x.Header["Ratelimit"] = fmt.Sprintf(`"default";r=%d;t=%s`, left, togo(x, until))
	}},
	{"draft 07 of the IETF", "fixed", []int64{60, 100}, []time.Duration{15 * time.Minute}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		x.Header["Ratelimit-Policy"] = fmt.Sprintf(`%d;w=%d`, s.quota, int(s.per.Seconds()))
		x.Header["Ratelimit"] = fmt.Sprintf(`limit=%d, remaining=%d, reset=%s`, s.quota, left, togo(x, until))
	}},
	{"draft 06 of the IETF, no policy", "fixed", []int64{60, 100, 5000}, []time.Duration{time.Minute, 15 * time.Minute}, false, three("Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", togo)},
	{"Zendesk", "fixed", []int64{200, 400, 700}, []time.Duration{time.Minute}, false, three("X-Rate-Limit", "X-Rate-Limit-Remaining", "", nil)},
	{"GitLab", "fixed", []int64{600, 2000}, []time.Duration{time.Minute}, false, three("Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", unix)},
	{"Okta", "fixed", []int64{600, 1200}, []time.Duration{time.Minute}, false, three("X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", unix)},
	{"Vimeo", "fixed", []int64{100, 600}, []time.Duration{time.Minute}, false, three("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", func(_ *record.Exchange, t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-07:00") })},
	{"Trello", "first", []int64{300, 100}, []time.Duration{10 * time.Second}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		three("X-Rate-Limit-Api-Key-Max", "X-Rate-Limit-Api-Key-Remaining", "", nil)(x, s, left, until)
		x.Header["X-Rate-Limit-Api-Key-Interval-Ms"] = fmt.Sprint(s.per.Milliseconds())
	}},
	{"Contentful", "fixed", []int64{7, 36000}, []time.Duration{time.Hour}, false, three("X-Contentful-Ratelimit-Hour-Limit", "X-Contentful-Ratelimit-Hour-Remaining", "", nil)},
	{"DigitalOcean", "first", []int64{5000}, []time.Duration{time.Hour}, false, three("Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", unix)},
	{"Notion, Asana: only Retry-After", "first", []int64{6, 9, 15}, []time.Duration{time.Minute}, false, func(*record.Exchange, *limiter, int64, time.Time) {}},
	{"Salesforce, of a day", "first", []int64{15000}, []time.Duration{day}, false, func(x *record.Exchange, s *limiter, left int64, _ time.Time) {
		x.Header["Sforce-Limit-Info"] = fmt.Sprintf("api-usage=%d/%d", s.quota-left, s.quota)
	}},
	{"an unknown name, seconds", "fixed", []int64{30, 120}, []time.Duration{time.Minute, 5 * time.Minute, day}, false, three("X-Acme-Ratelimit-Limit", "X-Acme-Ratelimit-Remaining", "X-Acme-Ratelimit-Reset", togo)},
	{"quota in the name, no reset", "first", []int64{10, 20}, []time.Duration{time.Minute}, false, three("X-Quota-Limit", "X-Quota-Remaining", "", nil)},
	{"used in place of remaining", "fixed", []int64{100, 250}, []time.Duration{time.Minute, time.Hour}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		x.Header["X-Ratelimit-Limit"], x.Header["X-Ratelimit-Used"], x.Header["X-Ratelimit-Reset"] = fmt.Sprint(s.quota), fmt.Sprint(s.quota-left), unix(x, until)
	}},
}

// recorded makes a recording of 50 calls of an upstream of a form.
func (f *form) recorded(r *rand.Rand) (truth *limiter, lines []byte) {
	s := &limiter{algorithm: f.algorithm, quota: f.quotas[r.IntN(len(f.quotas))], per: f.pers[r.IntN(len(f.pers))]}
	if s.algorithm == "bucket" {
		if s.burst = s.quota; f.bursts {
			s.burst = s.quota * 20
		}
	}
	full := *s
	now := time.Date(2026, 11, 28, r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e9), time.UTC)
	// The program calls for some windows, sometimes faster and sometimes slower.
	pause := time.Duration(float64(min(s.per, 2*time.Hour)) * (1 + 2*r.Float64()) / 50)
	if s.algorithm == "bucket" {
		pause = time.Duration(float64(s.per) / float64(s.quota) * (0.2 + 0.4*r.Float64()))
	}
	paths := []string{"/v1/items", "/v1/items/4711", "/v1/search"}
	for range 50 {
		now = now.Add(time.Duration(float64(pause) * (0.2 + 1.6*r.Float64())))
		ok, left, until := s.take(now, 1)
		x := &record.Exchange{At: now.Truncate(time.Millisecond), Host: "api.example.com", Verb: "GET", Path: paths[r.IntN(3)], Status: 200, Kind: "json", Header: map[string]string{}}
		f.tell(x, s, left, until)
		if !ok {
			x.Status, x.Header["Retry-After"] = http.StatusTooManyRequests, seconds(until.Sub(now))
		}
		line, err := json.Marshal(x)
		if err != nil {
			panic(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	return &full, lines
}

// TestDraftsHaveTheWindowsOfTheirUpstreams makes 50 upstreams of each seed, and compares the
// windows of their drafts with the truth.
func TestDraftsHaveTheWindowsOfTheirUpstreams(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 20261128} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
			var wrong []string
			for i := range 50 {
				f := &forms[i%len(forms)]
				truth, lines := f.recorded(r)
				d := New()
				if err := d.Log("calls.jsonl", lines); err != nil {
					t.Fatal(err)
				}
				text, _ := d.Book()
				again := New()
				if err := again.Log("calls.jsonl", lines); err != nil {
					t.Fatal(err)
				}
				if second, _ := again.Book(); second != text {
					t.Errorf("%s: two drafts of one recording differ", f.name)
				}
				b, err := book.Parse("draft", []byte(text), nil)
				if err != nil {
					t.Fatalf("%s: %v\n%s", f.name, err, text)
				}
				u := b.Upstreams["example"]
				if got := windowsOf(u); !slices.Equal(got, []string{truth.String()}) {
					wrong = append(wrong, fmt.Sprintf("%s: %s, drafted %s", f.name, truth, strings.Join(got, " and ")))
					if testing.Verbose() {
						t.Logf("%s\n%.3000s", text, lines)
					}
				}
				if len(u.Methods) != 3 {
					t.Errorf("%s: %d methods\n%s", f.name, len(u.Methods), text)
				}
			}
			t.Logf("seed %d: the windows of %d of 50 are true; the others: %s", seed, 50-len(wrong), strings.Join(wrong, "; "))
			if len(wrong) > 5 {
				t.Errorf("seed %d: %d of 50 are wrong", seed, len(wrong))
			}
		})
	}
}

// Answers to calls at once come in another order than the upstream has counted them.
func TestCallsAtOnceAreNoBucket(t *testing.T) {
	var lines []byte
	for i := range 50 {
		x := &record.Exchange{At: time.Date(2026, 11, 28, 10, 0, 0, i*1e8, time.UTC), Host: "api.example.com", Verb: "GET", Path: "/v1/items", Status: 200, Kind: "json", Header: map[string]string{
			"X-Ratelimit-Limit-Hour": "1000", "X-Ratelimit-Remaining-Hour": fmt.Sprint(900 - (i ^ 1)),
		}}
		line, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	d := New()
	if err := d.Log("calls.jsonl", lines); err != nil {
		t.Fatal(err)
	}
	if text, _ := d.Book(); !strings.Contains(text, "- {per: 1h, quota: 1000}") {
		t.Errorf("drafted:\n%s", text)
	}
}

func (s *limiter) String() string {
	if s.burst > 0 {
		return fmt.Sprintf("bucket %d by %d in %s", s.burst, s.quota, s.per)
	}
	return fmt.Sprintf("%d in %s", s.quota, s.per)
}

func windowsOf(u *book.Upstream) (all []string) {
	for _, p := range u.Pools {
		for _, w := range p.Windows {
			if w.Drains() {
				all = append(all, fmt.Sprintf("bucket %d by %d in %s", w.Quota, w.Rate, w.Per))
			} else {
				all = append(all, fmt.Sprintf("%d in %s", w.Quota, w.Length()))
			}
		}
	}
	return all
}
