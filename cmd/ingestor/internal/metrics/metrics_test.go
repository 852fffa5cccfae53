package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// noon is in the middle of a day in California.
var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

const prices = `
revision: 7
upstreams:
  maps:
    accounts: {default: {}, staging: {}}
    classes: {backfill: {keep_free: 30%}}
    pools:
      units: {quota: 100, headroom: 10, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}
      tiny: {quota: 2, windows: [{per: 10m}]}
    methods: {geocode: {pool: units, cost: 5}, route: {pool: tiny, cost: 1}}
families:
  client: {windows: [{per: 1m, quota: 1}]}
`

// rig is metrics of a ledger and a catalog that are really there.
type rig struct {
	*testing.T
	clock   *quota.SimClock
	store   *broken
	ledger  *quota.Ledger
	catalog *catalog.Catalog
	metrics *metrics.Metrics
	log     bytes.Buffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, clock: quota.NewSimClock(noon)}
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	r.metrics = metrics.New(&metrics.Options{Log: log, Timeout: 5 * time.Second, Share: -1})
	costs, err := book.Parse("costs.yaml", []byte(prices), nil)
	r.must(err)
	r.store = &broken{Store: memstore.New(&memstore.Options{Clock: r.clock})}
	r.ledger, err = quota.New(costs, r.store, &quota.Options{Observer: r.metrics})
	r.must(err)
	r.catalog, err = catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: r.clock})
	r.must(err)
	t.Cleanup(func() { _ = r.catalog.Close() })
	c := &ingest.Config{Jobs: map[string]ingest.Job{"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Regions: []string{"US", "DE"}}}}
	for _, fault := range c.Prepare() {
		t.Fatal(fault)
	}
	runner := ingest.NewRunner(c, r.ledger, r.catalog, nil, nil, &ingest.Options{Clock: r.clock, Log: log})
	r.metrics.SetSources(view.Sources{Ledger: r.ledger, Catalog: r.catalog, Runner: runner, Jobs: c.List()})
	return r
}

// broken is a store that can be made to fail, or to hang until nobody waits any more.
type broken struct {
	quota.Store
	err   error
	hangs bool
}

func (b *broken) fault(ctx context.Context) error {
	if b.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.err
}

func (b *broken) Look(ctx context.Context, c []quota.Charge) ([]quota.PageState, error) {
	if err := b.fault(ctx); err != nil {
		return nil, err
	}
	return b.Store.Look(ctx, c)
}

func (b *broken) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if err := b.fault(ctx); err != nil {
		return quota.Verdict{}, err
	}
	return b.Store.Reserve(ctx, r)
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// reserve asks for a call, and does not mind to be refused.
func (r *rig) reserve(c quota.Call) error {
	_, err := r.ledger.Reserve(r.Context(), c)
	return err
}

// scrape asks as Prometheus does.
func (r *rig) scrape() families {
	r.Helper()
	w := httptest.NewRecorder()
	r.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(r.Context(), "GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		r.Fatalf("it answers %d: %s", w.Code, w.Body)
	}
	return r.parse(w.Body.String())
}

// families are metrics by name.
type families map[string]*dto.MetricFamily

func (r *rig) parse(text string) families {
	r.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	r.must(err)
	return all
}

// value returns a metric with all of these labels, pairs of name and value, and fails
// if there is not one.
func (r *rig) value(all families, name string, labels ...string) float64 {
	r.Helper()
	var found []float64
	for _, m := range all[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i < len(labels); i += 2 {
			matches = matches && has[labels[i]] == labels[i+1]
		}
		if matches {
			found = append(found, m.GetGauge().GetValue()+m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()))
		}
	}
	if len(found) != 1 {
		r.Fatalf("of %s%v there are %v", name, labels, found)
	}
	return found[0]
}

// expect holds a metric against a value.
func (r *rig) expect(all families, want float64, name string, labels ...string) {
	r.Helper()
	if got := r.value(all, name, labels...); got != want {
		r.Errorf("%s%v is %v, not %v", name, labels, got, want)
	}
}

func TestPoolsAndSpend(t *testing.T) {
	r := newRig(t)
	r.must(r.reserve(quota.Call{Method: "geocode", Job: "night", Region: "DE"}))
	r.must(r.reserve(quota.Call{Method: "geocode", Job: "night", Region: "DE", Account: "staging", Class: "backfill"}))
	pool := quota.Pool{Upstream: "maps", Account: "default", Name: "units"}
	_, err := r.ledger.Admin().Adjust(t.Context(), pool, 7, "seen in the console")
	r.must(err)
	_, err = r.ledger.Admin().Adjust(t.Context(), pool, 1, "and again")
	r.must(err)
	r.must(r.ledger.BlockFor(t.Context(), pool, time.Hour, "the console says so"))
	all := r.scrape()
	of := []string{"upstream", "maps", "account", "default", "pool", "units", "window", "24h"}
	r.expect(all, 1, "headroom_ledger_up")
	r.expect(all, 7, "headroom_book_revision")
	r.expect(all, 13, "headroom_window_used_units", of...)
	r.expect(all, 90, "headroom_window_limit_units", of...)
	r.expect(all, 100, "headroom_window_quota_units", of...)
	r.expect(all, 10, "headroom_window_headroom_units", of...)
	r.expect(all, 13, "headroom_window_next_units", of...)
	r.expect(all, float64(noon.Add(24*time.Hour+time.Minute).Unix()), "headroom_window_next_timestamp_seconds", of...)
	r.expect(all, float64(noon.Add(12*time.Hour).Unix()), "headroom_window_reset_timestamp_seconds", "window", "day America/Los_Angeles", "account", "default")
	r.expect(all, 1, "headroom_pool_blocked", of[:6]...)
	r.expect(all, float64(noon.Add(time.Hour).Unix()), "headroom_pool_blocked_until_timestamp_seconds", of[:6]...)
	r.expect(all, 0, "headroom_pool_blocked", "account", "staging", "pool", "units")
	r.expect(all, 5, "headroom_spend_today_units", "account", "default", "method", "geocode", "job", "night", "region", "DE", "class", "")
	r.expect(all, 1, "headroom_spend_today_calls", "account", "staging", "class", "backfill")
	r.expect(all, 8, "headroom_spend_today_units", "account", "default", "method", "")

	r.clock.Set(noon.Add(13 * time.Hour)) // another day in California
	all = r.scrape()
	r.expect(all, 0, "headroom_pool_blocked", of[:6]...)
	if spent := all["headroom_spend_today_units"]; spent != nil {
		t.Errorf("of the day before there is %v", spent)
	}
}

// TestBudgetsAreInDollars also if the ledger counts millionths.
func TestBudgetsAreInDollars(t *testing.T) {
	r := newRig(t)
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams: {maps: {pools: {units: {quota: 100, windows: [{per: 24h}]}}, methods: {geocode: {cost: 1, bill: 0.25 USD}}}}
budgets:
  all: {quota: 20 USD, windows: [{per: month, zone: UTC}], of: maps, then: [{at: 50%, slow: 5 USD, per: 1h}]}
  user: {quota: 1.50 USD, windows: [{per: day, zone: UTC}], of: maps, by: {header: X-User, default: none}}
`), nil)
	r.must(err)
	r.ledger, err = quota.New(costs, r.store, nil)
	r.must(err)
	for range 3 {
		r.must(r.reserve(quota.Call{Method: "geocode"}))
	}
	r.metrics.SetSources(view.Sources{Ledger: r.ledger, Catalog: r.catalog})
	all := r.scrape()
	r.expect(all, 0.75, "headroom_budget_used_dollars", "budget", "all", "window", "month UTC")
	r.expect(all, 20, "headroom_budget_limit_dollars", "budget", "all")
	if budgets := len(all["headroom_budget_used_dollars"].GetMetric()); budgets != 2 {
		t.Errorf("%d budgets, want 2: the rate of a step is none", budgets)
	}
}

// TestSpendHasACap is for callers that name a job for each of their users.
func TestSpendHasACap(t *testing.T) {
	r := newRig(t)
	for i := range 320 {
		_, err := r.ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "maps", Account: "default", Name: "units"}, -1, "make room") // the first finds nothing used
		r.must(err)
		err = r.reserve(quota.Call{Charges: map[string]int64{"units": 1}, Job: fmt.Sprint("job", i)})
		r.must(err)
	}
	r.must(r.reserve(quota.Call{Method: "geocode", Job: "the largest"}))
	all := r.scrape()
	r.expect(all, 5, "headroom_spend_today_units", "job", "the largest")
	r.expect(all, 320+5-299-5-319, "headroom_spend_today_units", "job", "other")
	if n := len(all["headroom_spend_today_units"].GetMetric()); n != 301 {
		t.Errorf("there are %d series", n)
	}
}

// TestOutcomesStandAtZero from the start: an alert on their increase has to see the first
// outage.
func TestOutcomesStandAtZero(t *testing.T) {
	r := newRig(t)
	all := r.scrape()
	for _, outcome := range []string{"granted", "refused", "blocked", "impossible", "unpriced", "observed", "admitted", "outage", "failed", "drawn"} {
		r.expect(all, 0, "headroom_decisions_total", "upstream", "maps", "account", "default", "outcome", outcome)
		r.expect(all, 0, "headroom_decisions_total", "upstream", "client", "outcome", outcome)
	}
	r.expect(all, 0, "headroom_blocks_total", "upstream", "maps", "account", "default", "pool", "units")
	for _, reason := range []string{"client", "all"} {
		r.expect(all, 0, "ingestor_connections_closed_total", "reason", reason)
	}
}

// TestScrapesShareAnAnswer: however many ask at once, the ledger is read once.
func TestScrapesShareAnAnswer(t *testing.T) {
	r := newRig(t)
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	m := metrics.New(&metrics.Options{Log: log, Share: time.Hour})
	m.SetSources(view.Sources{Ledger: r.ledger, Catalog: r.catalog})
	scrape := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		if w.Code != http.StatusOK {
			t.Errorf("%d", w.Code)
		}
		return w.Body.String()
	}
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() { scrape() })
	}
	all.Wait()
	r.store.err = errors.New("gone")
	if !strings.Contains(scrape(), "headroom_ledger_up 1") {
		t.Error("the ledger is read again")
	}
	brief := metrics.New(&metrics.Options{Log: log, Share: time.Millisecond})
	brief.SetSources(view.Sources{Ledger: r.ledger, Catalog: r.catalog})
	m = brief
	scrape()
	r.store.err = nil
	for !strings.Contains(scrape(), "headroom_ledger_up 1") { // until the answer is forgotten
		if t.Context().Err() != nil {
			t.Fatal("the answer is kept for ever")
		}
	}
}

// gone is a client that hung up.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWhoHangsUpIsNoError(t *testing.T) {
	r := newRig(t)
	r.metrics.Handler().ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if strings.Contains(r.log.String(), "ERROR") {
		t.Errorf("the log says %s", &r.log)
	}
}

func TestDecisions(t *testing.T) {
	r := newRig(t)
	for range 3 {
		_ = r.reserve(quota.Call{Method: "route"})
		_ = r.reserve(quota.Call{Family: "client", Key: "203.0.113.7"})
	}
	_ = r.reserve(quota.Call{Method: "rout"})
	_ = r.reserve(quota.Call{Method: "route", Account: "a stranger's"})
	_ = r.reserve(quota.Call{Charges: map[string]int64{"units": 1000}})
	r.must(r.ledger.BlockFor(t.Context(), quota.Pool{Upstream: "maps", Account: "default", Name: "units"}, time.Hour, "no"))
	_ = r.reserve(quota.Call{Method: "geocode"})
	r.store.err = errors.New("gone")
	_ = r.reserve(quota.Call{Method: "geocode"})
	r.store.err = nil

	all := r.scrape()
	for outcome, want := range map[string]float64{"granted": 2, "refused": 1, "blocked": 1, "impossible": 1, "unpriced": 1, "outage": 1} {
		r.expect(all, want, "headroom_decisions_total", "upstream", "maps", "account", "default", "outcome", outcome)
	}
	r.expect(all, 1, "headroom_decisions_total", "upstream", "", "outcome", "failed")
	r.expect(all, 1, "headroom_decisions_total", "upstream", "client", "outcome", "granted")
	r.expect(all, 2, "headroom_decisions_total", "upstream", "client", "outcome", "refused")
	r.expect(all, 1, "headroom_refusals_total", "upstream", "maps", "pool", "tiny", "window", "10m")
	r.expect(all, 2, "headroom_refusals_total", "upstream", "client", "pool", "", "window", "1m")
	r.expect(all, 1, "headroom_blocks_total", "upstream", "maps", "account", "default", "pool", "units")
	if got := r.value(all, "headroom_reserve_duration_seconds"); got < 6 { // one refusal is believed
		t.Errorf("the store was timed %v times", got)
	}
	for name, family := range all {
		for _, m := range family.GetMetric() {
			if text := m.String(); strings.Contains(text, "203.0.113.7") || strings.Contains(text, "stranger") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	if all["go_goroutines"] == nil || all["process_open_fds"] == nil {
		t.Error("metrics of the process are missing")
	}
}

func TestRunsAndFreshness(t *testing.T) {
	r := newRig(t)
	fence, err := r.catalog.NewFence(t.Context(), "default/trending")
	r.must(err)
	run, err := r.catalog.Begin(t.Context(), catalog.Start{Job: "trending", Fence: fence})
	r.must(err)
	all := r.scrape()
	r.expect(all, 1, "ingestor_run_state", "job", "trending", "state", "running")
	r.expect(all, float64(noon.Unix()), "ingestor_run_started_timestamp_seconds", "job", "trending")
	r.expect(all, 0, "ingestor_region_completed_timestamp_seconds", "region", "DE")
	if all["ingestor_run_ended_timestamp_seconds"] != nil {
		t.Error("it has ended already")
	}

	r.clock.Advance(time.Minute)
	_, err = run.Save(t.Context(), &catalog.Page{
		Cursor: catalog.Cursor{Job: "trending", Work: "US"}, Region: "US", Done: true, Chart: true,
	})
	r.must(err)
	r.must(run.EndWork(t.Context(), "US", "US", catalog.Outcome{State: catalog.Done}))
	r.must(run.End(t.Context(), catalog.Outcome{State: catalog.Failed}))
	r.clock.Set(noon.Add(3 * time.Hour))
	all = r.scrape()
	r.expect(all, 1, "ingestor_run_state", "job", "trending", "state", "failed")
	r.expect(all, 0, "ingestor_run_state", "job", "trending", "state", "running")
	r.expect(all, float64(noon.Add(time.Minute).Unix()), "ingestor_run_ended_timestamp_seconds", "job", "trending")
	r.expect(all, float64(noon.Add(15*time.Minute).Unix()), "ingestor_job_due_timestamp_seconds", "job", "trending")
	r.expect(all, float64(noon.Add(3*time.Hour+15*time.Minute).Unix()), "ingestor_job_next_timestamp_seconds", "job", "trending")
	r.expect(all, float64(noon.Add(time.Minute).Unix()), "ingestor_region_completed_timestamp_seconds", "job", "trending", "region", "US")
	r.expect(all, 0, "ingestor_region_completed_timestamp_seconds", "job", "trending", "region", "DE")
}

// TestWhatIsDownIsReported: the other metrics stay.
func TestWhatIsDownIsReported(t *testing.T) {
	r := newRig(t)
	r.store.err = errors.New("gone")
	all := r.scrape()
	r.expect(all, 0, "headroom_ledger_up")
	r.expect(all, 1, "ingestor_catalog_up")
	if all["headroom_window_used_units"] != nil || all["headroom_book_revision"] != nil {
		t.Error("half of a ledger is reported")
	}
	if !strings.Contains(r.log.String(), "gone") {
		t.Errorf("nothing says why: %s", r.log.String())
	}
	r.store.err = nil
	r.must(r.catalog.Close())
	all = r.scrape()
	r.expect(all, 1, "headroom_ledger_up")
	r.expect(all, 0, "ingestor_catalog_up")
}

func TestALedgerThatHangs(t *testing.T) {
	r := newRig(t)
	m := metrics.New(&metrics.Options{Log: slog.New(slog.DiscardHandler), Timeout: 10 * time.Millisecond})
	m.SetSources(view.Sources{Ledger: r.ledger, Catalog: r.catalog})
	r.metrics, r.store.hangs = m, true
	r.expect(r.scrape(), 0, "headroom_ledger_up")
}

func TestFile(t *testing.T) {
	r := newRig(t)
	r.must(r.reserve(quota.Call{Method: "geocode", Job: "night \"and\" \\day"}))
	path := filepath.Join(t.TempDir(), "ingestor.prom")
	r.must(os.WriteFile(path, []byte("the old one"), 0o600))
	r.must(r.metrics.WriteFile(path))
	text, err := os.ReadFile(path)
	r.must(err)
	all := r.parse(string(text))
	r.expect(all, 5, "headroom_spend_today_units", "job", "night \"and\" \\day")
	if all["go_goroutines"] != nil || all["headroom_decisions_total"] != nil {
		t.Error("the file has metrics of the process")
	}
	info, err := os.Stat(path)
	r.must(err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("node_exporter may not read it: %s", info.Mode())
	}
	if err := r.metrics.WriteFile(filepath.Join(path, "below a file")); err == nil {
		t.Error("it writes below a file")
	}
}
