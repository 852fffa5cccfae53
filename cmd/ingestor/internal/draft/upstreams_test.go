package draft

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
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
			"extensions.cost.throttleStatus.maximumAvailable": fmt.Sprint(s.burst), "extensions.cost.throttleStatus.currentlyAvailable": fmt.Sprint(left),
			"extensions.cost.throttleStatus.restoreRate": fmt.Sprint(s.quota),
		}
	}},
	{"GitHub GraphQL", "first", []int64{5000}, []time.Duration{time.Hour}, false, func(x *record.Exchange, s *limiter, left int64, until time.Time) {
		x.Body = map[string]string{"data.rateLimit.limit": fmt.Sprint(s.quota), "data.rateLimit.remaining": fmt.Sprint(left), "data.rateLimit.resetAt": until.UTC().Format(time.RFC3339)}
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

// special are the prices and refusals of forms that are unlike others: the member of the body
// that tells the price, and how a call is refused.
var special = map[string][2]string{
	"GitHub REST":     {"", "403"},
	"Linear":          {"", "400 and RATELIMITED"},
	"Shopify GraphQL": {"extensions.cost.actualQueryCost", "200 and THROTTLED"},
	"GitHub GraphQL":  {"data.rateLimit.cost", "200 and RATE_LIMITED"},
}

// wait returns how long it takes until a call of some units is taken.
func (s *limiter) wait(now time.Time, cost int64) time.Duration {
	c := *s
	ok, _, until := c.take(now, cost)
	switch {
	case ok:
		return 0
	case s.algorithm == "bucket":
		return time.Duration((float64(cost)-c.left)*c.per.Seconds()/float64(c.quota)*float64(time.Second)) + time.Millisecond
	}
	return until.Sub(now)
}

// rate is how many units a second a limit has for long.
func (s *limiter) rate() float64 { return float64(s.quota) / s.per.Seconds() }

// Prices of calls, by where they are told.
const (
	priceOne     = "1"
	priceRoute   = "by route"
	priceRequest = "in the request"
	priceHeader  = "in a header"
	priceBody    = "in the body"
)

// simulated is an upstream behind HTTP. Calls reach it at once, and their answers take a while.
type simulated struct {
	form
	limits  []*limiter // the form tells the first
	day     bool       // headers tell the second, too; otherwise it shows in refusals only
	price   string     // where the price of a call is told
	told    string     // the header or member that tells it
	refuses string     // how it refuses
	key     string     // the header that must have the key
	pages   bool       // lists have pages, with cursors in their paths

	mu   sync.Mutex
	rand *rand.Rand
	slow time.Duration // a call takes about so long
	seen *stretch      // nil: the calls are recorded
}

// newUpstream makes an upstream. The first ones have the forms of public APIs, and the others random ones.
func newUpstream(i int, r *rand.Rand) *simulated {
	one := func(all ...string) string { return all[r.IntN(len(all))] }
	s := &simulated{rand: r, slow: 125 * time.Millisecond, price: priceOne, refuses: "429 and seconds", pages: r.IntN(3) == 0}
	s.key = one("Authorization", "X-Api-Key", "Private-Token", "Api-Key", "X-Auth-Token")
	if i < len(forms) {
		s.form = forms[i]
		if how := special[s.name]; how != [2]string{} {
			s.told, s.refuses = how[0], how[1]
		}
		if s.told != "" {
			s.price = priceBody
		}
	} else {
		s.form = randomForm(r)
		s.price = one(priceOne, priceOne, priceOne, priceRoute, priceRoute, priceRequest, priceHeader, priceBody)
		switch s.price {
		case priceHeader:
			s.told = one("X-Request-Cost", "X-Acme-Cost", "X-Quota-Cost", "X-Complexity", "X-Credits-Used")
		case priceBody:
			s.told = one("usage.total_tokens", "extensions.cost.actualQueryCost", "meta.credits_used", "cost", "usage.credits")
		}
		s.refuses = one("429 and seconds", "429 and seconds", "429 and a date", "429", "403 and seconds", "503 and seconds")
	}
	l := &limiter{algorithm: s.algorithm, quota: s.quotas[r.IntN(len(s.quotas))], per: s.pers[r.IntN(len(s.pers))]}
	if s.price != priceOne && i >= len(forms) {
		l.quota *= 5
	}
	if l.algorithm == "bucket" {
		if l.burst = l.quota; s.bursts {
			l.burst = l.quota * 20
		}
	}
	s.limits = []*limiter{l}
	if i < len(forms) {
		return s
	}
	switch r.IntN(10) {
	case 0, 1: // a limit of the day, which headers tell, too
		s.limits, s.day = append(s.limits, &limiter{algorithm: "fixed", quota: 100000 + r.Int64N(100000), per: day}), true
	case 2: // a limit of bursts, which no answer tells
		if l.per == time.Second {
			break // it has none
		}
		s.limits = append(s.limits, &limiter{algorithm: "first", quota: max(l.quota/3, 9), per: max(l.per/10, time.Second)})
	}
	return s
}

// randomForm makes a form that no API has, as far as anybody knows.
func randomForm(r *rand.Rand) form {
	one := func(all ...string) string { return all[r.IntN(len(all))] }
	per := []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}[r.IntN(7)]
	f := form{algorithm: one("fixed", "first", "bucket"), pers: []time.Duration{per}, quotas: []int64{int64(10 + r.IntN(190))}}
	if per < 10*time.Second {
		f.quotas[0] = int64(5 + r.IntN(20))
	}
	begins := one("X-", "", "Acme-", "X-Acme-") + one("Ratelimit-", "Rate-Limit-", "Quota-")
	ends := one("", "", "-Requests", "-Calls")
	limit, remaining := begins+one("Limit", "Max", "Allowed")+ends, begins+one("Remaining", "Left", "Available")+ends
	reset, kind := begins+one("Reset", "Resets", "Reset-At")+ends, one("unix", "unix", "togo", "togo", "ms", "rfc3339", "duration", "date", "none", "none")
	if f.algorithm == "bucket" && kind == "none" {
		kind = "togo"
	}
	f.name = remaining + " " + kind
	f.tell = three(http.CanonicalHeaderKey(limit), http.CanonicalHeaderKey(remaining), map[bool]string{false: http.CanonicalHeaderKey(reset)}[kind == "none"], map[string]func(*record.Exchange, time.Time) string{
		"unix": unix, "togo": togo, "none": unix,
		"ms":       func(_ *record.Exchange, t time.Time) string { return fmt.Sprint(t.UnixMilli()) },
		"rfc3339":  func(_ *record.Exchange, t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"duration": func(x *record.Exchange, t time.Time) string { return t.Sub(x.At).Round(time.Millisecond).String() },
		"date":     func(_ *record.Exchange, t time.Time) string { return t.UTC().Add(time.Second).Format(http.TimeFormat) },
	}[kind])
	return f
}

// wanted makes the request of the next call.
func (s *simulated) wanted(r *rand.Rand) *http.Request {
	path := []string{"/v1/items", fmt.Sprintf("/v1/items/%d", r.IntN(1000)), "/v1/search"}[r.IntN(3)]
	if s.pages && path == "/v1/items" && r.IntN(2) == 0 {
		path = fmt.Sprintf("/v1/items/pages/c%x", r.Uint64())
	}
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://api.example.com%s?limit=%d", path, 1+r.IntN(100)), nil) //nolint:noctx // of a simulation
	if err != nil {
		panic(err)
	}
	return req
}

// cost is what a call costs.
func (s *simulated) cost(req *http.Request) int64 {
	switch s.price {
	case priceRoute:
		if req.URL.Path == "/v1/search" {
			return 5
		}
	case priceRequest:
		n, _ := strconv.Atoi(req.URL.Query().Get("limit"))
		return int64(n+24) / 25
	case priceHeader, priceBody:
		return 1 + s.rand.Int64N(9)
	}
	return 1
}

// takes takes a call, or refuses it.
func (s *simulated) takes(now time.Time, cost int64) (ok bool, left int64, until, again time.Time) {
	var wait time.Duration
	for _, l := range s.limits {
		wait = max(wait, l.wait(now, cost))
	}
	for i, l := range s.limits {
		n := cost
		if wait > 0 {
			n = 0
		}
		if _, rest, end := l.take(now, n); i == 0 {
			left, until = rest, end
		}
	}
	return wait == 0, left, until, now.Add(wait)
}

func (s *simulated) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	there, back := s.took()/2, s.took()/2
	cost := s.cost(req)
	s.mu.Unlock()
	time.Sleep(there)
	s.mu.Lock()
	now := time.Now()
	ok, left, until, again := s.takes(now, cost)
	x := &record.Exchange{At: now, Header: map[string]string{"Content-Type": "application/json", "Date": now.UTC().Format(http.TimeFormat)}, Status: 200}
	s.tell(x, s.limits[0], left, until)
	if s.day {
		x.Header["X-Ratelimit-Limit-Day"], x.Header["X-Ratelimit-Remaining-Day"] = fmt.Sprint(s.limits[1].quota), fmt.Sprint(int64(s.limits[1].left))
	}
	if x.Body == nil {
		x.Body = map[string]string{"data.id": "4711"}
	}
	if s.seen != nil {
		s.seen.note(now, ok, cost)
	}
	switch {
	case req.Header.Get(s.key) == "":
		x.Status = http.StatusUnauthorized
	case !ok:
		kind, after, _ := strings.Cut(s.refuses, " and ")
		x.Status, _ = strconv.Atoi(kind)
		switch after {
		case "seconds":
			x.Header["Retry-After"] = seconds(again.Sub(now))
		case "a date":
			x.Header["Retry-After"] = again.Add(time.Second).UTC().Format(http.TimeFormat)
		case "":
		default:
			x.Body = map[string]string{"errors.0.extensions.code": after, "errors.0.message": "too many calls"}
		}
	default:
		switch s.price {
		case priceHeader:
			x.Header[s.told] = fmt.Sprint(cost)
		case priceBody:
			x.Body[s.told] = fmt.Sprint(cost)
		}
	}
	resp := &http.Response{StatusCode: x.Status, Header: http.Header{}, Request: req, ProtoMajor: 1, ProtoMinor: 1}
	for name, text := range x.Header {
		resp.Header.Set(name, text)
	}
	body := nested(x.Body)
	resp.ContentLength, resp.Body = int64(len(body)), io.NopCloser(strings.NewReader(body))
	s.mu.Unlock()
	time.Sleep(back)
	return resp, nil
}

func (s *simulated) took() time.Duration {
	return time.Duration(float64(s.slow) * (0.4 + 1.2*s.rand.Float64()))
}

// nested writes members as JSON. A number in their paths is a place in a list.
func nested(flat map[string]string) string {
	all := map[string]any{}
	for path, text := range flat {
		at, parts := all, strings.Split(strings.ReplaceAll(path, "errors.0.", "errors."), ".")
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = map[string]any{}
			}
			at = at[part].(map[string]any)
		}
		at[parts[len(parts)-1]] = text
		if n, err := json.Number(text).Int64(); err == nil {
			at[parts[len(parts)-1]] = n
		}
	}
	if one := all["errors"]; one != nil {
		all["errors"] = []any{one}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}
