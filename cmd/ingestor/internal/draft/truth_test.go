package draft

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// recorded makes 50 calls as a program does that nobody meters, sometimes faster and sometimes slower.
func (s *simulated) recorded(t *testing.T) []byte {
	l, each := s.limits[0], s.meanCost()
	pause := time.Duration(float64(min(l.per, 2*time.Hour)) * (1 + 2*s.rand.Float64()) / 50)
	if l.algorithm == "bucket" {
		pause = time.Duration(each / l.rate() * (0.2 + 0.4*s.rand.Float64()) * float64(time.Second))
	}
	slow := s.slow
	s.slow = min(slow, pause/4) // it makes several calls at once if they are slow
	defer func() { s.slow = slow }()
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	r, err := record.Open(path, 1<<20, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: r.Transport(s, func(req *http.Request) (string, string) { return req.URL.Host, s.key })}
	for range 50 {
		time.Sleep(time.Duration(float64(pause) * (0.2 + 1.6*s.rand.Float64())))
		req := s.wanted(s.rand)
		req.Header.Set(s.key, "secret")
		if err := ask(client, req); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func ask(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return cmp.Or(err, resp.Body.Close())
}

// metered returns a client that has only a price book.
func (s *simulated) metered(t *testing.T, b *book.Book) *http.Client {
	l, err := quota.New(b, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := meter.New(l, &meter.Options{
		Base: s, MaxWait: 48 * time.Hour, Logger: slog.New(slog.DiscardHandler),
		Keys: map[string]meter.KeySource{"example": meter.Key("secret")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: m}
}

const workers = 8

// drive makes calls with eight workers, each of which calls again at once, until it is enough.
func (s *simulated) drive(work func(r *rand.Rand) error, enough func() bool) (failed error) {
	var wait sync.WaitGroup
	var seeds [workers]uint64
	for w := range seeds { // before a call of the first worker draws from the same source
		seeds[w] = s.rand.Uint64()
	}
	for w := range workers {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), seeds[w])) //nolint:gosec // no secret
			for {
				s.mu.Lock()
				over := enough()
				s.mu.Unlock()
				if over {
					return
				}
				if err := work(r); err != nil {
					s.mu.Lock()
					failed = err
					s.mu.Unlock()
					time.Sleep(time.Second)
				}
			}
		})
	}
	wait.Wait()
	return failed
}

// meanCost is what a call costs on average.
func (s *simulated) meanCost() float64 {
	return map[string]float64{priceOne: 1, priceRoute: 7. / 3, priceRequest: 2.5, priceHeader: 5, priceBody: 5}[s.price]
}

// outcome is what a draft has made of an upstream.
type outcome struct {
	upstream, windows string // no windows: they are true
	text, recorded    string
	drafted, told     stretch
}

func (o *outcome) reached() bool {
	return o.yield() >= 0.95 && 100*o.drafted.refused < o.drafted.sent && o.drafted.failed == nil
}

func (o *outcome) yield() float64 { return o.drafted.yield() / o.told.yield() }

func (o *outcome) String() string {
	text := fmt.Sprintf("%-100s yield %.3f, refused %d (told %d) of %d in %s", o.upstream, o.yield(), o.drafted.refused, o.told.refused, o.drafted.sent, o.told.lasted.Round(time.Second))
	if !o.reached() {
		text = "BELOW " + text
	}
	if o.windows != "" {
		text += "; drafted " + o.windows
	}
	if err := cmp.Or(o.drafted.failed, o.told.failed); err != nil {
		text += "; " + err.Error()
	}
	return text
}

// trial drafts from a recording of an upstream, and calls it with nothing but the draft.
func trial(t *testing.T, seed uint64, i, calls int) (o outcome) {
	r := rand.New(rand.NewPCG(seed, uint64(i)))                                                                        //nolint:gosec // no secret
	time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(20 * day)))))) // the clock of the bubble
	s := newUpstream(i, r)
	lines := s.recorded(t)
	before := make([]limiter, len(s.limits))
	for i, l := range s.limits {
		before[i] = *l
	}
	d := New()
	if err := d.Log("calls.jsonl", lines); err != nil {
		t.Fatal(err)
	}
	text, _ := d.Book()
	o.text, o.recorded = text, string(lines)
	b, err := book.Parse("draft.yaml", []byte(strings.Replace(text, "\n    mode: observe", "\n    mode: enforce", 1)), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	o.upstream = s.String()
	want := before[0].String()
	if s.day {
		want += " and " + before[1].String()
	}
	if got := strings.Join(windowsOf(b.Upstreams["example"]), " and "); got != want {
		o.windows = got
	}
	truth := s.truth(text)
	told, err := book.Parse("truth.yaml", []byte(truth), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, truth)
	}
	begun := time.Now()
	o.told = s.run(t, told, calls, 0)
	// The draft begins in the same state, and has as much time.
	by := time.Since(begun)
	if l := &before[0]; l.algorithm == "fixed" {
		time.Sleep(l.per - by%l.per)
		by += l.per - by%l.per
	}
	for i, l := range s.limits {
		*l = before[i]
		if !l.until.IsZero() {
			l.until = l.until.Add(by)
		}
		if !l.last.IsZero() {
			l.last = l.last.Add(by)
		}
	}
	o.drafted = s.run(t, b, 0, o.told.lasted)
	return o
}

// stretch is what became of the calls of a client.
type stretch struct {
	calls         int // when so many were sent, it is over
	begun         time.Time
	lasted        time.Duration // 0: it is not over
	sent, refused int
	units, weight float64 // that were granted; and each with the seconds since the beginning
	failed        error
}

// note counts a call.
func (o *stretch) note(now time.Time, ok bool, units int64) {
	if o.over(now) {
		return
	}
	if o.sent++; !ok {
		o.refused++
	} else {
		o.units += float64(units)
		o.weight += float64(units) * now.Sub(o.begun).Seconds()
	}
	if o.sent == o.calls {
		o.lasted = now.Sub(o.begun)
	}
}

func (o *stretch) over(now time.Time) bool { return o.lasted > 0 && now.Sub(o.begun) >= o.lasted }

// yield is how many units were granted, on average over the time. The sum at the end would depend on whether
// one more window has just begun.
func (o *stretch) yield() float64 { return o.units - o.weight/o.lasted.Seconds() }

// run calls an upstream with a price book, so many times or for so long.
func (s *simulated) run(t *testing.T, b *book.Book, calls int, lasted time.Duration) stretch {
	client := s.metered(t, b)
	s.seen = &stretch{calls: calls, lasted: lasted, begun: time.Now()}
	failed := s.drive(func(r *rand.Rand) error { return ask(client, s.wanted(r)) }, func() bool { return s.seen.over(time.Now()) })
	s.seen.failed = failed
	return *s.seen
}

// truth is the price book that somebody writes who knows all of an upstream. Its feedback is that of the draft.
func (s *simulated) truth(drafted string) string {
	var windows []string
	for _, l := range s.limits {
		w := window{quota: l.quota, per: l.per, burst: l.burst}
		windows = append(windows, w.written())
	}
	_, feedback, _ := strings.Cut(drafted, "    feedback:\n")
	feedback, _, found := strings.Cut(feedback, "    refusals:\n")
	if found {
		feedback = "    feedback:\n" + feedback
	}
	feedback = regexp.MustCompile(`per: [0-9]+[smh],`).ReplaceAllStringFunc(feedback, func(text string) string {
		if text == "per: 24h," {
			return text
		}
		return "per: " + strictyaml.Duration(s.limits[0].per) + ","
	})
	cost := map[string]string{
		priceOne: "1", priceRoute: "1", priceRequest: "{estimate: {query: limit, per: 25, default: 4}}",
		priceHeader: "{estimate: {learn: p95, first: 9}, actual: {header: " + s.told + "}}", priceBody: "{estimate: {learn: p95, first: 9}, actual: {body: " + s.told + "}}",
	}[s.price]
	search := cost
	if s.price == priceRoute {
		search = "5"
	}
	pool := "requests"
	if _, named, found := strings.Cut(feedback, "{pool: "); found {
		pool, _, _ = strings.Cut(named, ",")
	}
	return fmt.Sprintf(`
revision: 1
upstreams:
  example:
    hosts: [api.example.com]
    api_key: {header: %s}
    pools: {%s: {windows: [%s]}}
%s    refusals: [{status: [403, 429, 503], header: Retry-After, for: 30s}, {status: [400, 403, 429], for: 1s}, {status: 200, body: [THROTTLED, RATE_LIMITED], for: 1s}]
    methods:
      search: {route: GET /v1/search, charge: {%s: %s}}
      others: {route: "* /{rest...}", charge: {%s: %s}}
`, s.key, pool, strings.Join(windows, ", "), feedback, pool, search, pool, cost)
}

func (s *simulated) String() string {
	var limits []string
	for _, l := range s.limits {
		limits = append(limits, l.String())
	}
	return fmt.Sprintf("%s, %s %s, price %s, %s", s.name, s.algorithm, strings.Join(limits, " + "), s.price, s.refuses)
}

// TestDraftsYield makes upstreams of a seed: each fifth of its 50. A client that has only the draft of 50 recorded
// calls must get as much of nine in ten as one that has their true price book, with less than 1% of its calls
// refused. With HEADROOM_SOAK=1, it makes all 50 of three seeds on which something was tuned, of two on which
// nothing was, and of a new one. Chance decides how hard a seed is, so 42 are enough there.
func TestDraftsYield(t *testing.T) {
	seeds, step := []uint64{21}, 5
	if os.Getenv("HEADROOM_SOAK") == "1" {
		seeds, step = []uint64{21, 22, 23, 105, 301, 0}, 1
	}
	for _, seed := range seeds {
		part := 0.9
		if seed == 0 {
			seed, part = rand.Uint64(), 0.84
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			reached, all := 0, 0
			for i := 0; i < 50; i += step {
				var o outcome
				synctest.Test(t, func(t *testing.T) { o = trial(t, seed, i, 1000) })
				t.Log(&o)
				all++
				if o.reached() {
					reached++
				} else if testing.Verbose() {
					t.Logf("%s\n%.3000s", o.text, o.recorded)
				}
			}
			t.Logf("seed %d: %d of %d reach the bar", seed, reached, all)
			if least := int(part * float64(all)); reached < least {
				t.Errorf("want %d", least)
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
	if text, _ := d.Book(); !strings.Contains(text, "- {per: 1h, quota: 1000}") || !strings.Contains(text, "charge: {requests: 1}}  # calls.jsonl; 50 calls\n") {
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
