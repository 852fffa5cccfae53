package pages_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// rows asks for a figure and returns its rows without the headings.
func (r *rig) rows(path string) [][]string {
	r.Helper()
	a := r.ask(path)
	if a.Code != http.StatusOK || a.Header().Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(a.Header().Get("Content-Disposition"), "attachment") {
		r.Fatalf("%s: %d, %v", path, a.Code, a.Header())
	}
	all, err := csv.NewReader(a.Body).ReadAll()
	r.Must(err)
	return all[1:]
}

// spend spends units of youtube/units for a job.
func (r *rig) spend(units int64, job, region, class string) {
	r.Helper()
	_, err := r.Ledger.Reserve(r.Context(), quota.Call{Upstream: "youtube", Charges: quota.Units{"units": units}, Job: job, Region: region, Class: class})
	r.Must(err)
}

// TestHistory: each label adds up to the same units, in the days of the pool.
func TestHistory(t *testing.T) {
	r := newRig(t, "", nil)
	r.spend(10, "trending", "DE", "")
	r.Clock.Advance(13 * time.Hour) // past midnight in California
	r.spend(5, "etl/nightly", "US", "backfill")
	_, err := r.Ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, 3, "tried (by anna)")
	r.Must(err)
	for by, want := range map[string]string{
		"job":     "[2026-11-20 trending 10] [2026-11-21 anna 3] [2026-11-21 etl/nightly 5]",
		"caller":  "[2026-11-20 runs of ingestor 10] [2026-11-21 anna 3] [2026-11-21 etl 5]",
		"region":  "[2026-11-20 DE 10] [2026-11-21 US 5] [2026-11-21 no region 3]",
		"class":   "[2026-11-20 no class 10] [2026-11-21 backfill 5] [2026-11-21 no class 3]",
		"account": "[2026-11-20 default 10] [2026-11-21 default 8]",
		"method":  "[2026-11-20 no method 10] [2026-11-21 anna 3] [2026-11-21 no method 5]",
	} {
		for _, span := range []string{"7d", "30d"} {
			path := "history?pool=youtube%2Funits&range=" + span + "&by=" + by
			var got []string
			for _, row := range r.rows("/csv/" + path) {
				got = append(got, fmt.Sprint(row[:3]))
			}
			slices.Sort(got)
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s has\n%s and not\n%s", path, text, want)
			}
			r.reads("/"+path, "18 units of youtube/units")
		}
	}
	r.reads("/history?pool=youtube%2Funits", "limit 9,500 a day", "Days begin at midnight Pacific", "trending job 10 55%", "etl/nightly caller 5 28%", "anna person 3 17%")
	if source, _ := r.page("/history?pool=youtube%2Funits"); !strings.Contains(source, `class="limit"`) || !strings.Contains(source, "20 November: 10 units of trending") {
		t.Error("there is no line of the limit, or no bar")
	}
	if rows := r.rows("/csv/history?pool=youtube%2Funits&range=24h"); len(rows) != 3 || rows[0][0] != "2026-11-20T20:00:00Z" {
		t.Errorf("of 24 h there is %v", rows)
	}
	for path, status := range map[string]int{"/history?pool=none": 404, "/csv/history?pool=none": 404, "/csv/nothing": 404, "/csv/run?id=7": 404, "/csv/run?id=x": 404, "/runs/7": 404, "/runs/x": 404} {
		if a := r.ask(path); a.Code != status {
			t.Errorf("%s: %d", path, a.Code)
		}
	}
}

// TestFiguresAreNoFormulas: a spreadsheet would run what a caller names itself.
func TestFiguresAreNoFormulas(t *testing.T) {
	r := newRig(t, "", nil)
	r.spend(1, "=1+1", "", "")
	if rows := r.rows("/csv/who?pool=youtube%2Funits"); len(rows) != 1 || rows[0][0] != "'=1+1" || rows[0][2] != "1" || rows[0][3] != "100" {
		t.Errorf("it has %v", rows)
	}
	page, want := catalog.Page{Done: true, Region: "GB", Chart: true}, []string{}
	for i, title := range []string{"=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", " =1+1", "\u3000=1+1", "\u202e=1+1", "\uff1d1+1", "\uff0b1+1", "\uff0d1+1", "\uff20SUM(A1)", "1+1=2", "-1", "+1.5", "a"} {
		page.Videos = append(page.Videos, catalog.Video{ID: fmt.Sprint("v", i), Title: title})
		if title = strings.TrimPrefix(title, "\u202e"); i < 12 {
			title = "'" + title
		}
		want = append(want, title)
	}
	run, err := r.Catalog.Begin(t.Context(), catalog.Start{Job: "elsewhere"})
	r.Must(err)
	page.Cursor, err = r.Catalog.Cursor(t.Context(), "elsewhere", "GB")
	r.Must(err)
	_, err = run.Save(t.Context(), &page)
	r.Must(err)
	rows := r.rows("/csv/chart?region=GB")
	for i, row := range rows {
		if len(rows) != len(want) || !slices.Contains(row, want[i]) {
			t.Errorf("of %q there is %q", page.Videos[i].Title, row)
		}
	}
}

// TestARunHasAPage: what it did, what was refused, why it stopped and when it resumes.
func TestARunHasAPage(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 3, headroom: 0}}}}", nil)
	r.Run("trending")
	runs, err := r.Catalog.Runs(t.Context(), catalog.RunsQuery{})
	r.Must(err)
	if len(runs) != 1 || runs[0].State != catalog.Deferred {
		t.Fatalf("it is %+v", runs)
	}
	path := fmt.Sprintf("/runs/%d", runs[0].ID)
	r.reads(path, "deferred Started at 20:00 UTC (now)", "youtube/units had too few units left. It resumes at 20:01 UTC tomorrow (in 24 h)", "calls refused 1", "units spent 3",
		"What was reported")
	r.reads("/runs", "youtube/units had too few units left. Resumes at 20:01 UTC tomorrow")
	source, _ := r.page("/runs")
	if !strings.Contains(source, `href="`+path+`"`) || strings.Contains(source, "retry after") {
		t.Error("the runs do not lead to it, or they show the error")
	}
	refused := r.rows("/csv/history?pool=youtube%2Funits&range=7d")
	if last := refused[len(refused)-1]; last[0] != "2026-11-20" || last[3] != "1" {
		t.Errorf("the history has %v", refused)
	}
	r.reads("/history?pool=youtube%2Funits", "1 call refused")
	if rows := r.rows("/csv/run?id=" + path[len("/runs/"):]); len(rows) != 2 {
		t.Errorf("its work is %v", rows)
	}
}

// TestRefusalsOfCallersAreMarked beside those of runs, and in the totals of a year.
func TestRefusalsOfCallersAreMarked(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 3, headroom: 0}}}}", nil)
	r.Run("trending") // of which a call is refused
	r.Must(r.Catalog.AddRefusals(t.Context(), []catalog.Refusal{
		{Pool: "youtube/units", Cause: "refused", Hour: viewtest.Noon, Caller: "etl", Calls: 4},
		{Pool: "youtube/units", Cause: "blocked", Hour: viewtest.Noon, Caller: "front", Calls: 2},
		{Pool: "youtube/searches", Cause: "refused", Hour: viewtest.Noon, Caller: "etl", Calls: 100},
	}))
	const path = "history?pool=youtube%2Funits&range="
	for _, span := range []string{"24h", "7d", "30d", "1y"} {
		r.reads("/"+path+span, "7 calls refused", "2 units of work or calls stopped by a block")
		source, _ := r.page("/" + path + span)
		for _, want := range []string{": 7 calls were refused: 4 of etl, 2 of front, 1 of runs<", ": a block stopped 2 units of work or calls<"} {
			if !strings.Contains(source, want) {
				t.Errorf("%s: no mark says %q", span, want)
			}
		}
		rows := r.rows("/csv/" + path + span)
		if last := rows[len(rows)-1]; last[3] != "7" || last[4] != "2" {
			t.Errorf("%s: the figures are %v", span, rows)
		}
	}
	r.Must(r.board.KeepDays(t.Context()))
	days, err := r.Catalog.Days(t.Context(), "youtube/units", "2026-11-20")
	r.Must(err)
	if len(days) != 1 || days[0].Refused != 7 || days[0].Blocked != 2 {
		t.Errorf("the totals are %+v", days)
	}
}

// TestTotalsAreKeptLonger: the catalog has the totals of days that the ledger has forgotten.
func TestTotalsAreKeptLonger(t *testing.T) {
	r := pagesOf(viewtest.New(t, nil))
	r.spend(10, "trending", "", "")
	r.Must(r.board.KeepDays(t.Context()))
	r.Clock.Advance(100 * 24 * time.Hour)
	r.spend(5, "trending", "", "")
	r.Must(r.board.KeepDays(t.Context()))
	var got []string
	for _, row := range r.rows("/csv/history?pool=youtube%2Funits&range=1y") {
		got = append(got, fmt.Sprint(row[:3]))
	}
	if fmt.Sprint(got) != "[[2026-11-20 all 10] [2027-02-28 all 5]]" {
		t.Errorf("a year has %v", got)
	}
	if rows := r.rows("/csv/history?pool=youtube%2Funits&range=30d"); len(rows) != 1 {
		t.Errorf("30 days have %v", rows)
	}
}

// TestTheOldestDayKeepsItsRefusals: the ledger's spend of its oldest day is that of the whole
// day, which began before the 30 days that are read. The day before keeps its totals as well.
func TestTheOldestDayKeepsItsRefusals(t *testing.T) {
	r := newRig(t, "", nil)
	r.spend(5, "trending", "", "")
	r.Clock.Advance(24 * time.Hour)
	r.spend(10, "trending", "", "")
	for _, hour := range []int{-10, 2, 14, 26} { // two on each day
		r.Must(r.Catalog.AddRefusals(t.Context(), []catalog.Refusal{{Pool: "youtube/units", Cause: "refused", Hour: viewtest.Noon.Add(time.Duration(hour) * time.Hour), Caller: "etl", Calls: 4}}))
	}
	for range 2 { // today, and on the last day on which the ledger has this one
		r.Must(r.board.KeepDays(t.Context()))
		days, err := r.Catalog.Days(t.Context(), "youtube/units", "2026-11-20")
		r.Must(err)
		want := []catalog.PoolDay{
			{Pool: "youtube/units", Day: "2026-11-20", Units: 5, Calls: 1, Refused: 8},
			{Pool: "youtube/units", Day: "2026-11-21", Units: 10, Calls: 1, Refused: 8},
		}
		if !slices.Equal(days, want) {
			t.Errorf("at %s the totals are\n%+v, want\n%+v", r.Clock.Now(), days, want)
		}
		r.Clock.Advance(30 * 24 * time.Hour)
	}
}

// TestBudgetsAreInDollars: no page writes the millionths of a budget.
func TestBudgetsAreInDollars(t *testing.T) {
	r := pagesOf(viewtest.New(t, &viewtest.Options{Prices: `
budgets: {all: {quota: 20 USD, windows: [{per: day}], of: llm}}
upstreams: {llm: {pools: {calls: {quota: 100, windows: [{per: 1m}]}}, methods: {ask: {cost: 1, bill: 0.50 USD}}}}
`}))
	for model, cents := range map[string]int64{"large": 1650, "small": 25} {
		call := quota.Call{Upstream: "llm", Method: "ask", Job: "etl", Model: model, Estimate: quota.Units{"USD": cents * 10_000}}
		if _, err := r.Ledger.Reserve(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]string{
		"/history?pool=budgets%2Fall&by=model": {"16.75 USD of budgets/all", "large 16.50 USD 99%", "small 0.25 USD 1%", "20 November: 16.50 USD of large"},
		"/history?pool=budgets%2Fall":          {"Dollars of budgets/all by job"},
		"/?by=method":                          {"16.75 USD of 20.00 USD", "Dollars of budgets/all that count"},
	} {
		source, text := r.page(path)
		for _, want := range want {
			if !strings.Contains(source, want) && !strings.Contains(text, want) {
				t.Errorf("%s does not have %q:\n%s", path, want, text)
			}
		}
		for _, bad := range []string{"6,750", "unit of budgets", "units of budgets"} {
			if strings.Contains(source, bad) {
				t.Errorf("%s has %q:\n%s", path, bad, text)
			}
		}
	}
	for path, want := range map[string]string{
		"/csv/history?pool=budgets%2Fall&by=model": "day,model,dollars,refused_calls,stopped_by_block\n2026-11-20,large,16.50,,\n2026-11-20,small,0.25,,\n",
		"/csv/who?pool=budgets%2Fall":              "who,kind,dollars,percent,spent_since\netl,caller,16.75,100,",
		"/csv/pools":                               "\nbudgets/all,day UTC,16.75,20.00,3.25,20.00,0.00,16.75,",
	} {
		if got := r.ask(path).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s does not have %q:\n%s", path, want, got)
		}
	}
	if source, _ := r.page("/history?pool=youtube%2Funits"); strings.Contains(source, "by model") {
		t.Error("a pool without models can be grouped by them")
	}
}
