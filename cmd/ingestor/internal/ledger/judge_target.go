package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
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
	case !f.own && !loopback(u.Hostname()):
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

// callTimeout bounds one call.
const callTimeout = 10 * time.Second

var headerName = pattern.Of(`^[A-Za-z0-9_-]+$`)

func loopback(host string) bool {
	at, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && at.IsLoopback()
}

// call implements [boundary.Limiter].
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
		var outer *url.Error // repeats the query
		if errors.As(err, &outer) {
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
