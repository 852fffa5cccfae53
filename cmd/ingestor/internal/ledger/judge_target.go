package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
)

// answer is a call that a limiter answered.
type answer struct {
	sent, done   time.Time
	begun, ended int // in the order of all beginnings and ends, which times may not tell
	passed       bool
	claims
}

// target is a limiter behind HTTP.
type target struct {
	url     string // for people: without its query, which may hold a key
	req     *http.Request
	client  *http.Client
	refused []int // statuses
	clock   bounded
	secrets []string // values of --header

	mu      sync.Mutex
	left    int // calls
	order   int // of beginnings and ends
	answers []answer
}

// spentError means that the calls or the time that the user allowed are used up.
type spentError struct{ flag string }

func (e *spentError) Error() string { return e.flag + " is used up" }

// bounded is a clock that does not sleep past an end.
type bounded struct {
	quota.Clock
	end time.Time
}

// Sleep implements [quota.Clock]. It never moves a simulated clock back.
func (b bounded) Sleep(ctx context.Context, d time.Duration) error {
	d = max(d, 0)
	if b.Now().Add(d).After(b.end) {
		return &spentError{"--max-time"}
	}
	return b.Clock.Sleep(ctx, d)
}

// newTarget checks where calls would go, and sends none.
func newTarget(text string, f *judgeFlags, clock bounded) (*target, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, console.Usage("judge needs a whole URL\nFor example: ingestor judge http://127.0.0.1:8080/ --yes")
	case u.User != nil:
		return nil, console.Usage("the URL has credentials, which would be in the shell's history and in lists of processes\nGive them as a header: ingestor judge URL --header \"Authorization: $SECRET\"")
	case !f.own && !guard.Loopback(u.Hostname()):
		return nil, console.Usage("%s is not this machine, and judge sends bursts of calls\nIf the service is yours: ingestor judge URL --i-own-this --yes", u.Hostname())
	}
	t := &target{url: u.Scheme + "://" + u.Host + u.EscapedPath(), refused: f.refused, clock: clock, left: f.maxCalls}
	if t.req, err = http.NewRequest(http.MethodGet, u.String(), http.NoBody); err != nil {
		return nil, console.Usage("judge needs a whole URL\nFor example: ingestor judge http://127.0.0.1:8080/ --yes")
	}
	for _, line := range f.headers {
		name, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !headerName().MatchString(name) || value == "" || strings.ContainsAny(value, "\r\n\x00") {
			return nil, console.Usage("a --header is not a name, a colon and a value\nFor example: --header \"Authorization: Bearer $TOKEN\"") // it may be a secret
		}
		t.secrets = append(t.secrets, value, "xxxxx")
		if t.req.Header.Add(name, value); strings.EqualFold(name, "Host") {
			t.req.Host = value
		}
	}
	dialer := &net.Dialer{Timeout: callTimeout}
	if !f.own {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
				return errors.New("its name leads to another machine, which needs --i-own-this")
			}
			return nil
		}
	}
	t.client = &http.Client{
		Timeout:       callTimeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, MaxIdleConnsPerHost: f.parallel, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return t, nil
}

const callTimeout = 10 * time.Second

var headerName = pattern.Of(`^[A-Za-z0-9_-]+$`)

func (t *target) call(ctx context.Context) (time.Time, bool, error) {
	t.mu.Lock()
	t.left--
	t.order++
	spent, begun := t.left < 0, t.order
	t.mu.Unlock()
	if spent {
		return time.Time{}, false, &spentError{"--max-calls"}
	}
	if err := t.clock.Sleep(ctx, 0); err != nil {
		return time.Time{}, false, err
	}
	sent := t.clock.Now()
	resp, err := t.client.Do(t.req.Clone(ctx))
	if err != nil {
		if outer, is := errors.AsType[*url.Error](err); is { // it repeats the query
			err = outer.Err
		}
		return time.Time{}, false, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("%s does not answer: %w", t.url, err)}
	}
	done := t.clock.Now()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection can be used again
	_ = resp.Body.Close()
	a := answer{sent: sent, done: done, begun: begun, passed: resp.StatusCode/100 == 2, claims: readClaims(resp.Header, done)}
	if !a.passed && !slices.Contains(t.refused, resp.StatusCode) {
		return time.Time{}, false, t.strange(resp)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.order++
	a.ended = t.order
	t.answers = append(t.answers, a)
	return done, a.passed, nil
}

// strange is the error for an answer that neither passes nor refuses.
func (t *target) strange(resp *http.Response) error {
	said := fmt.Sprintf("%s answered with %d %s", t.url, resp.StatusCode, http.StatusText(resp.StatusCode))
	switch to, err := resp.Location(); {
	case resp.StatusCode >= http.StatusInternalServerError:
		return &console.Exit{Code: console.ExitDown, Err: errors.New(said + "\nIf that is how it refuses calls, add the status: --refused 429,503," + fmt.Sprint(resp.StatusCode))}
	case err == nil && to.Host == t.req.URL.Host:
		return console.Usage("%s to %s, and judge follows no redirect\nJudge that address, if it has the limiter", said, strings.NewReplacer(t.secrets...).Replace(to.EscapedPath()))
	case err == nil:
		return console.Usage("%s to another host, %s, and judge follows no redirect\nJudge a URL that answers with a status of 200 to 299", said, to.Hostname())
	}
	return console.Usage("%s\nJudge a URL that answers with a status of 200 to 299, or add the status of refusals: --refused 429,503,%d", said, resp.StatusCode)
}

// span returns when passed calls were sent and answered, from an answer on.
func span(answers []answer) (sent, done []time.Time) {
	for i := range answers {
		if answers[i].passed {
			sent, done = append(sent, answers[i].sent), append(done, answers[i].done)
		}
	}
	return sent, done
}

// The headers that limiters send, by what they say. The standard's drafts come first.
var (
	limitHeaders     = []string{"RateLimit-Policy", "RateLimit", "RateLimit-Limit", "X-RateLimit-Limit", "X-Rate-Limit-Limit"}
	remainingHeaders = []string{"RateLimit", "RateLimit-Remaining", "X-RateLimit-Remaining", "X-Rate-Limit-Remaining"}
	resetHeaders     = []string{"Retry-After", "RateLimit", "RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset"}
)

// claims are what the headers of one answer say.
type claims struct {
	rates       []claimedRate
	remaining   int // -1: unknown
	remainingBy string
	named       time.Time // when a refused call may come again; zero: unknown
	namedBy     string
}

// claimedRate is a limit. Its window is 0 if the header does not name it.
type claimedRate struct {
	header string
	boundary.Rate
}

// readClaims reads the headers of an answer that came at a time. It leaves out what it does
// not understand.
func readClaims(h http.Header, now time.Time) claims {
	c := claims{remaining: -1}
	for _, name := range limitHeaders {
		for _, item := range items(h, name) {
			if q, ok := item.number("q", "limit", ""); ok && q >= 1 {
				w, _ := item.number("w", "window")
				c.rates = append(c.rates, claimedRate{name, boundary.Rate{Limit: int(q), Per: time.Duration(w * float64(time.Second))}})
			}
		}
	}
	for _, name := range remainingHeaders {
		for _, item := range items(h, name) {
			if r, ok := item.number("r", "remaining", ""); ok && r >= 0 && (c.remaining < 0 || int(r) < c.remaining) {
				c.remaining, c.remainingBy = int(r), name
			}
		}
	}
	for _, name := range resetHeaders {
		for _, at := range resets(h, name, now) {
			if c.namedBy == "" || c.namedBy == name && at.After(c.named) {
				c.named, c.namedBy = at, name
			}
		}
	}
	return c
}

// resets returns the times that a header names for what has run out.
func resets(h http.Header, name string, now time.Time) (all []time.Time) {
	for _, form := range []string{http.TimeFormat, time.RFC3339} {
		if at, err := time.Parse(form, h.Get(name)); err == nil {
			return []time.Time{at}
		}
	}
	const year2001 = 1_000_000_000 // in seconds: longer than any wait, and earlier than any reset
	for _, item := range items(h, name) {
		t, ok := item.number("t", "reset", "")
		if left, said := item.number("r"); !ok || t < 0 || said && left > 0 {
			continue
		}
		switch {
		case t >= 1000*year2001:
			all = append(all, time.UnixMilli(int64(t)))
		case t >= year2001:
			all = append(all, time.Unix(int64(t), 0))
		default:
			all = append(all, now.Add(time.Duration(t*float64(time.Second))))
		}
	}
	return all
}

// item is a member of a list, with its parameters. Its own value has the name "".
type item map[string]string

var tokens = pattern.Of(`[,;]|(?:"[^"]*"|[^",;])+`)

// items reads a header in any of its forms: 100, 100;w=60, "default";q=100;w=60, or
// limit=100, remaining=3.
func items(h http.Header, name string) []item {
	all := []item{{}}
	for _, token := range tokens().FindAllString(strings.Join(h.Values(name), ","), -1) {
		switch token {
		case ",":
			all = append(all, item{})
		case ";":
		default:
			key, value, named := strings.Cut(strings.TrimSpace(token), "=")
			if !named || strings.HasPrefix(key, `"`) {
				key, value = "", token
			}
			all[len(all)-1][strings.ToLower(key)] = strings.TrimSpace(value)
		}
	}
	return all
}

// number returns the first of the named values that is a number.
func (i item) number(names ...string) (float64, bool) {
	for _, name := range names {
		if n, err := strconv.ParseFloat(i[name], 64); err == nil && math.Abs(n) < 1<<53 {
			return n, true
		}
	}
	return 0, false
}

// learned returns the rate to judge: of those with a window the shortest, then the lowest.
func (c *claims) learned() (claimedRate, bool) {
	var best claimedRate
	for _, r := range c.rates {
		if r.Per > 0 && (best.Per == 0 || r.Per < best.Per || r.Per == best.Per && r.Limit < best.Limit) {
			best = r
		}
	}
	return best, best.Per > 0
}

// distinct returns all rates that answers claimed, in the order of their first answers. It
// leaves out a limit without a window if another header names it with one.
func distinct(answers []answer) (all []claimedRate) {
	for i := range answers {
		for _, r := range answers[i].rates {
			named := func(other claimedRate) bool { return r.Per == 0 && other.Per > 0 && other.Limit == r.Limit }
			if !slices.Contains(all, r) && !slices.ContainsFunc(answers[i].rates, named) {
				all = append(all, r)
			}
		}
	}
	return all
}
