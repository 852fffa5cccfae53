package pages_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// take spends units of a pool of youtube for a job.
func (r *rig) take(units int64, pool, job string) {
	r.Helper()
	_, err := r.Ledger.Reserve(r.Context(), quota.Call{Upstream: "youtube", Charges: quota.Units{pool: units}, Job: job})
	r.Must(err)
}

var whoFigure = regexp.MustCompile(`href="(/csv/who[^"]*)"`)

// who returns the first card's list, and the rows of its CSV.
func (r *rig) who() (text string, rows [][]string) {
	r.Helper()
	source, text := r.page("/")
	_, text, _ = strings.Cut(text, " Who spent it ")
	text, _, _ = strings.Cut(text, " When it comes back ")
	return text, r.rows(html.UnescapeString(whoFigure.FindStringSubmatch(source)[1]))
}

// TestAMonthNamesItsSpenders: the list and its CSV are those of the window that the first
// card is about, however long it is.
func TestAMonthNamesItsSpenders(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 1000, headroom: 0, windows: [{per: 24h}, {per: month, quota: 2000, headroom: 0}]}}}}", nil)
	for range 3 {
		r.take(600, "units", "etl")
		r.Clock.Advance(25 * time.Hour)
	}
	r.take(100, "units", "python")
	text, rows := r.who()
	if !strings.Contains(text, "1,900 of 2,000 youtube/units, this month") || !strings.Contains(text, "etl caller 1,800 95% python caller 100 5%") {
		t.Errorf("it says %s", text)
	}
	if got := fmt.Sprint(rows); got != "[[etl caller 1800 95 2026-10-31T23:59:00Z] [python caller 100 5 2026-10-31T23:59:00Z]]" {
		t.Errorf("the figures are %s", got)
	}
	if a := r.ask("/csv/who?pool=youtube%2Funits&window=7m"); a.Code != 404 {
		t.Errorf("a window that the pool does not have: %d", a.Code)
	}
}

// TestAShortWindowNamesNobodyWrongly: spend is known by the hour, so a list of whole hours
// says that it is one.
func TestAShortWindowNamesNobodyWrongly(t *testing.T) {
	config := viewtest.Hourly()
	config.Jobs["news"] = ingest.Job{Kind: ingest.Search, Cron: "*/5 * * * *", Regions: []string{"US"}, Queries: []string{"music"}, Pages: 1}
	r := newRig(t, "upstreams: {youtube: {pools: {searches: {quota: 100, headroom: 0, windows: [{per: 24h}, {per: 10m, quota: 20, headroom: 0}]}}}}", config)
	r.take(20, "searches", "nightly")
	if text, _ := r.who(); !strings.Contains(text, "nightly caller 20 100%") || strings.Contains(text, "Spent since") {
		t.Errorf("all of the hour still counts, and it says %s", text)
	}
	r.Clock.Advance(11 * time.Minute)
	r.take(20, "searches", "nightly")
	r.Clock.Advance(39 * time.Minute)
	r.take(20, "searches", "runaway")
	text, rows := r.who()
	if !strings.Contains(text, "20 of 20 youtube/searches, in 10 min") || !strings.Contains(text, "Spent since 20:00 UTC (50 min ago): Who spent it: Units of youtube/searches Who Kind Units Share nightly caller 40 67% runaway caller 20 33%") {
		t.Errorf("it says %s", text)
	}
	if got := fmt.Sprint(rows); got != "[[nightly caller 40 67 2026-11-20T20:00:00Z] [runaway caller 20 33 2026-11-20T20:00:00Z]]" {
		t.Errorf("the figures are %s", got)
	}
}

const tokens = "upstreams: {llm: {hosts: [llm.example.com], pools: {tokens: {quota: 1000, windows: [{per: 24h}], by: {body: model, default: other}, keys: {large: 1000}}}, methods: {ask: {route: POST /ask, charge: {tokens: 1}}}}}"

// spendOfKeys spends tokens of two keys.
func (r *rig) spendOfKeys() {
	r.Helper()
	for _, x := range []struct {
		key, job string
		n        int64
	}{{"large", "summaries", 900}, {"small", "chat", 600}} {
		_, err := r.Ledger.Reserve(r.Context(), quota.Call{Upstream: "llm", Charges: quota.Units{"tokens": x.n}, Keys: map[string]string{"tokens": x.key}, Job: x.job})
		r.Must(err)
	}
}

// TestSpendOfAllKeysIsNotThatOfOne: the ledger keeps who spent, but not of which key.
func TestSpendOfAllKeysIsNotThatOfOne(t *testing.T) {
	r := newRig(t, tokens, nil)
	r.src.Jobs = nil
	r.spendOfKeys()
	text, _ := r.who()
	if !strings.Contains(text, "900 of 1,000 llm/tokens:large, in 24 h") || !strings.Contains(text, "Spent of all keys since 19:00 UTC yesterday (25 h ago): Who spent it: Units of llm/tokens, all keys Who Kind Units Share summaries caller 900 60% chat caller 600 40%") {
		t.Errorf("it says %s", text)
	}
	for _, span := range []string{"24h", "7d", "30d", "1y"} {
		path := "/history?pool=llm%2Ftokens:large&range=" + span
		r.reads(path, "1,500 units of llm/tokens, all keys")
		if _, text := r.page(path); strings.Contains(text, "limit 1,000") || strings.Contains(text, "tokens:large") {
			t.Errorf("the limit is that of one key: %s", text)
		}
	}
	r.Must(r.Catalog.AddRefusals(t.Context(), []catalog.Refusal{{Pool: "llm/tokens:large", Cause: "refused", Hour: viewtest.Noon, Caller: "chat", Calls: 4}}))
	r.Must(r.board.KeepDays(t.Context()))
	r.Clock.Advance(60 * 24 * time.Hour)
	r.spendOfKeys()
	r.reads("/history?pool=llm%2Ftokens:large&range=1y", "3,000 units of llm/tokens, all keys", "20 November: 1,500 units of all", "4 calls refused")
}

// TestManyCallersAreOneLine: those beyond the twelve largest are our own callers.
func TestManyCallersAreOneLine(t *testing.T) {
	r := newRig(t, "", nil)
	for i := range 20 {
		r.take(int64(20+i), "units", fmt.Sprintf("service-%02d", i))
	}
	_, text := r.page("/history?pool=youtube%2Funits")
	if strings.Contains(text, "outside this ledger") || !strings.Contains(text, "service-08 caller 28 5% 8 others 188 32% Days begin") {
		t.Errorf("it says %s", text)
	}
}

// TestUnitsGivenBackAreALine of the history, with their sign.
func TestUnitsGivenBackAreALine(t *testing.T) {
	r := newRig(t, "", nil)
	r.take(140, "units", "etl")
	_, err := r.Ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, -40, "the console says less")
	r.Must(err)
	r.reads("/history?pool=youtube%2Funits", "100 units of youtube/units", "etl caller 140 100% corrections corrected by hand -40 Days")
}

// TestARemovedJobIsStillAJob in the spend of the time when it ran.
func TestARemovedJobIsStillAJob(t *testing.T) {
	config := viewtest.Hourly()
	config.Jobs["old"] = ingest.Job{Kind: ingest.Trending, Cron: "5 * * * *", Pages: 2}
	r := newRig(t, "", config)
	r.Run("old")
	r.Clock.Advance(5 * 24 * time.Hour)
	r.take(3, "units", "etl")
	r.src.Jobs = r.src.Jobs[:0:0]
	r.reads("/history?pool=youtube%2Funits&range=30d", "old job 4 57%", "etl caller 3 43%")
	r.reads("/history?pool=youtube%2Funits&range=30d&by=caller", "runs of ingestor job 4 57%")
}

// TestARemovedJobOfAMonth is named as a job in the first card, too.
func TestARemovedJobOfAMonth(t *testing.T) {
	config := viewtest.Hourly()
	config.Jobs["old"] = ingest.Job{Kind: ingest.Trending, Cron: "5 * * * *", Pages: 2}
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 1000, headroom: 0, windows: [{per: month, quota: 2000, headroom: 0}]}}}}", config)
	r.Run("old")
	r.Clock.Advance(5 * 24 * time.Hour)
	r.src.Jobs = r.src.Jobs[:0:0]
	r.reads("/", "this month", "old job 4 100%")
}
