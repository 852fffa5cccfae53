package ledger

import (
	"cmp"
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

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
)

type judgeFlags struct {
	yes, own           bool
	limit, svg         string
	headers            []string
	refused            []int
	parallel, maxCalls int
	maxTime            time.Duration
}

func JudgeCommand(a *session.Session) *cobra.Command {
	var f judgeFlags
	cmd := a.Command("judge URL", console.Takes(1, 1, "the URL of a service"), func(cmd *cobra.Command, args []string) error {
		r, err := f.rate()
		if err != nil {
			return err
		}
		clock := bounded{Clock: cmp.Or[quota.Clock](a.Clock, quota.SystemClock{})}
		clock.end = clock.Now().Add(f.maxTime)
		t, err := newTarget(args[0], &f, clock)
		if err != nil {
			return err
		}
		if !f.yes {
			return console.Usage("this would send up to %s requests to %s within %s\nTo send them: ingestor judge URL --yes", figure(f.maxCalls), t.url, console.Length(f.maxTime))
		}
		j := &judging{target: t, parallel: f.parallel, rate: claimedRate{header: "--limit", Rate: r}}
		err = j.run(cmd.Context(), a, &f)
		spent, until := errors.AsType[*spentError](err)
		switch {
		case cmd.Context().Err() != nil:
			return &console.Exit{Code: console.ExitDeferred, Err: errors.New("interrupted; nothing is proved")}
		case until && j.rate.Per > 0: // judged by what it let through until then
		case err != nil:
			return err
		}
		v := j.view(clock.Now())
		if err := v.compared().print(a, f.svg, v, v.show); err != nil {
			return err
		}
		return v.broken(spent)
	})
	cmd.Flags().BoolVar(&f.yes, "yes", false, "send the requests")
	cmd.Flags().BoolVar(&f.own, "i-own-this", false, "judge a service on another machine, which is yours")
	cmd.Flags().StringVar(&f.limit, "limit", "", "limit to judge, as a `rate` such as 100/1m (default what the headers name)")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "`header` of each request, such as \"Authorization: Bearer $TOKEN\"; repeatable")
	cmd.Flags().IntSliceVar(&f.refused, "refused", []int{429, 503}, "`statuses` of refusals")
	cmd.Flags().IntVar(&f.parallel, "parallel", 8, "`number` of requests under way at a time in a full burst")
	cmd.Flags().IntVar(&f.maxCalls, "max-calls", 5000, "largest `number` of requests to send")
	cmd.Flags().DurationVar(&f.maxTime, "max-time", 30*time.Minute, "longest `duration` to send them")
	cmd.Flags().StringVar(&f.svg, "svg", "", "also draw a picture into this `file`")
	return cmd
}

// rate reads --limit. Without it, the rate is zero.
func (f *judgeFlags) rate() (r boundary.Rate, err error) {
	switch {
	case f.parallel < 1 || f.parallel > 256:
		return r, console.Usage("--parallel must be 1 to 256, not %d", f.parallel)
	case f.maxCalls < 1 || f.maxTime <= 0:
		return r, console.Usage("--max-calls and --max-time must be positive")
	case f.limit == "":
		return r, nil
	}
	n, per, _ := strings.Cut(f.limit, "/")
	if per != "" && strings.Contains("smh", per) {
		per = "1" + per
	}
	r.Limit, err = strconv.Atoi(n)
	if err == nil {
		r.Per, err = time.ParseDuration(per)
	}
	if err != nil || r.Limit < 1 || r.Limit > 100_000 || r.Per < 100*time.Millisecond {
		return r, console.Usage("--limit must be a number and a duration of at least 100ms, such as 100/1m or 10/1s, not %q", f.limit)
	}
	return r, nil
}

// judging is a limiter on its timelines, one after the other.
type judging struct {
	*target
	parallel int
	rate     claimedRate
	rounds   []*round
	obeyed   obeyed
}

// round is a timeline with what was answered on it.
type round struct {
	id, name string
	trial    boundary.Trial
	from, to int // of the answers
}

func (j *judging) run(ctx context.Context, a *session.Session, f *judgeFlags) error {
	if _, _, err := j.call(ctx); err != nil {
		return err
	}
	if j.rate.Per == 0 {
		var ok bool
		if j.rate, ok = j.answers[0].learned(); !ok {
			said := "the headers name no limit"
			if rates := j.answers[0].rates; len(rates) > 0 {
				said = fmt.Sprintf("%s names a limit of %s, but no header names its window", rates[0].header, figure(rates[0].Limit))
			}
			return console.Usage("%s\nName the limit with its window: ingestor judge URL --yes --limit 100/1m", said)
		}
	}
	r := j.rate.Rate
	calls, long := 20*r.Limit+600, 27*r.Per+10*time.Second // with the pauses; Retry-After is in whole seconds
	if calls > f.maxCalls || j.clock.Now().Add(long).After(j.clock.end) {
		return console.Usage("to judge %s takes up to %s requests and %s\nTo allow that: ingestor judge URL --yes --max-calls %d --max-time %s\nOr set the limiter to a lower limit and a shorter window for the test",
			inAny(r), figure(calls), console.Length(long), calls, long)
	}
	if a.Output != "json" {
		fmt.Fprintf(a.Stderr, "Sending bursts to %s for up to %s.\n", j.url, console.Length(long))
	}
	greed := boundary.Greed(r, r.Per/20)
	found, err := j.round(ctx, "greed", "whatever comes free", greed)
	if err != nil {
		return err
	}
	if _, err := j.round(ctx, "clock", "the clock's boundary", boundary.Bursts(r)); err != nil {
		return err
	}
	if at, ok := found.refill(r); ok {
		t := boundary.Greed(r, min(r.Per/5+r.Per/time.Duration(r.Limit), r.Per/2)) // an estimate frees its first unit that late
		t.Since, t.About = at, "the same from just before the time at which the first call of a window passed"
		if _, err := j.round(ctx, "found", "a boundary found", t); err != nil {
			return err
		}
	}
	first := boundary.Bursts(r)
	first.Name, first.About = "first", "one call, then the same around the end of the window that it began"
	first.Steps = append([]boundary.Step{{After: -r.Per, Ask: 1}}, first.Steps...)
	if _, err := j.round(ctx, "first", "a first call's window", first); err != nil {
		return err
	}
	patient := first // for limiters that count refused calls, too
	patient.Name, patient.About = "patient", "the same, but the last burst is nearly a window after the other"
	patient.Steps = slices.Clone(first.Steps)
	patient.Steps[2].After = r.Per * 85 / 100
	if _, err := j.round(ctx, "patient", "a patient client", patient); err != nil {
		return err
	}
	return j.obey(ctx)
}

// round runs one timeline, after two windows without calls: estimates remember as long. The
// boundary is the one that the timeline names, the one of the clock, or the one that the first
// call of the round sets.
func (j *judging) round(ctx context.Context, id, name string, t boundary.Timeline) (*round, error) {
	if err := j.clock.Sleep(ctx, 2*j.rate.Per); err != nil {
		return nil, err
	}
	if id == "first" || id == "patient" || id == "obey" {
		t.Since = j.clock.Now().Add(time.Millisecond - j.rate.Per) // so that it begins at once
	}
	r := &round{id: id, name: name, from: len(j.answers), trial: boundary.Trial{Timeline: t, Limiter: j.call, Parallel: j.parallel}}
	j.rounds = append(j.rounds, r)
	err := boundary.Run(ctx, j.clock, j.rate.Rate, []*boundary.Trial{&r.trial})
	r.to = len(j.answers)
	return r, err
}

// refill returns when the first call passed after the burst. It is a boundary, or soon after
// one. A boundary of the clock, or of a window that the burst itself began, is not reported:
// other rounds are about those.
func (r *round) refill(rate boundary.Rate) (time.Time, bool) {
	for i, given := range r.trial.Given {
		if after := r.trial.Timeline.Steps[i].After; i > 0 && given > 0 {
			phase := after % rate.Per
			return r.trial.Boundary.Add(after), phase > rate.Per/20 && phase < rate.Per*94/100
		}
	}
	return time.Time{}, false
}

// obeyed is what came of calls at the times that refusals named.
type obeyed struct {
	by           string // the header; "": refusals name no time
	passed       int
	refusedFor   time.Duration // longer than named, at worst
	refused      int
	tooFar       time.Duration // a time that is too far away to wait for it
	neverRefused bool
}

// obey uses up the limit, and sends the next call at the time that the refusal names. It does
// so twice.
func (j *judging) obey(ctx context.Context) error {
	per, o := j.rate.Per, &j.obeyed
	for range 2 {
		told := boundary.Timeline{Name: "obey", About: "a full burst, then one call when the refusal says so"}
		told.Steps = []boundary.Step{{Ask: j.rate.Limit}, {Ask: j.rate.Limit + 1, Give: true}}
		r, err := j.round(ctx, "obey", "calls as told", told)
		if err != nil {
			return err
		}
		last := j.answers[len(j.answers)-1]
		switch wait := last.named.Sub(j.clock.Now()); {
		case last.passed:
			o.neverRefused = true
			return nil
		case last.namedBy == "":
			return nil
		case wait > 2*per+time.Second:
			o.by, o.tooFar = last.namedBy, wait
			return nil
		default:
			o.by = last.namedBy
			if err := j.clock.Sleep(ctx, wait); err != nil {
				return err
			}
		}
		named, step := j.clock.Now(), per/20
		for i := range 41 { // two windows
			_, passed, err := j.call(ctx)
			r.to = len(j.answers)
			if err != nil {
				return err
			}
			if passed && i == 0 {
				o.passed++
			}
			if passed {
				break
			}
			if i == 0 {
				o.refused++
			}
			if err := j.clock.Sleep(ctx, step); err != nil {
				return err
			}
			o.refusedFor = max(o.refusedFor, j.clock.Now().Sub(named))
		}
	}
	return nil
}

// sooner returns how long before the named time a refused call would have passed, at most.
func (j *judging) sooner() (most time.Duration) {
	for i, no := range j.answers {
		if no.passed || no.namedBy == "" {
			continue
		}
		next := slices.IndexFunc(j.answers[i:], func(a answer) bool { return a.passed && a.begun > no.ended })
		if next >= 0 {
			most = max(most, no.named.Sub(j.answers[i+next].done))
		}
	}
	return most
}

// misled returns the most that an answer said was left before the next call was refused, and
// the header. It looks only at calls with no other call under way.
func (j *judging) misled() (left int, by string) {
	for i := range len(j.answers) - 1 {
		a, next := &j.answers[i], &j.answers[i+1]
		alone := a.begun == 2*i+1 && a.ended == 2*i+2 && next.begun == 2*i+3 && next.ended == 2*i+4
		if alone && !next.passed && a.remaining > left {
			left, by = a.remaining, a.remainingBy
		}
	}
	return left, by
}

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
	req, err := http.NewRequest(http.MethodGet, text, http.NoBody)
	if err != nil || req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Hostname() == "" {
		return nil, console.Usage("judge needs a whole URL\nFor example: ingestor judge http://127.0.0.1:8080/ --yes")
	}
	u := req.URL
	switch {
	case u.User != nil:
		return nil, console.Usage("the URL has credentials, which would be in the shell's history and in lists of processes\nGive them as a header: ingestor judge URL --header \"Authorization: $SECRET\"")
	case !f.own && !guard.Loopback(u.Hostname()):
		return nil, console.Usage("%s is not this machine, and judge sends bursts of calls\nIf the service is yours: ingestor judge URL --i-own-this --yes", u.Hostname())
	}
	t := &target{req: req, url: u.Scheme + "://" + u.Host + u.EscapedPath(), refused: f.refused, clock: clock, left: f.maxCalls}
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
