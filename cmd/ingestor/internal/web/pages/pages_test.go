package pages_test

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/pages"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	blanks = regexp.MustCompile(`\s+`)
)

// rig is the pages over the sources of a [viewtest.Rig].
type rig struct {
	*viewtest.Rig
	src   view.Sources // what the pages show
	board *pages.Board
	mux   *http.ServeMux
}

// newRig returns pages of sources with these price book entries and jobs; nil is hourly.
func newRig(t testing.TB, prices string, config *ingest.Config) *rig {
	t.Helper()
	return pagesOf(viewtest.New(t, &viewtest.Options{Prices: prices, Config: config}))
}

func pagesOf(under *viewtest.Rig) *rig {
	r := &rig{Rig: under, src: under.Sources(), mux: http.NewServeMux()}
	b := pages.New(func() view.Sources { return r.src }, &pages.Options{
		Clock: r.Clock, Log: slog.New(slog.DiscardHandler), Facts: verdict.NewReader(&verdict.Options{Clock: r.Clock, MaxAge: 26 * time.Hour}),
		Operated:  func() bool { return false },
		Searching: func(r *http.Request, search func(context.Context) error) error { return search(r.Context()) },
	})
	r.board = b
	r.mux.HandleFunc("GET /{$}", b.Home)
	r.mux.HandleFunc("GET /search", b.Search)
	r.mux.HandleFunc("GET /regions", b.Regions)
	r.mux.HandleFunc("GET /runs", b.Runs)
	r.mux.HandleFunc("GET /runs/{id}", b.OneRun)
	r.mux.HandleFunc("GET /history", b.History)
	r.mux.HandleFunc("GET /csv/{figure}", b.CSV)
	r.mux.HandleFunc("GET /regions/{region}", b.Region)
	r.mux.HandleFunc("GET /static/{name}", b.Static)
	return r
}

// ask makes a request; headers are pairs of name and value.
func (r *rig) ask(path string, headers ...string) *httptest.ResponseRecorder {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), "GET", path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, req)
	return w
}

// page asks for a page and returns its HTML and the text a person reads.
func (r *rig) page(path string) (source, text string) {
	r.Helper()
	a := r.ask(path)
	if a.Code != http.StatusOK || a.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		r.Fatalf("%s: %d, %s", path, a.Code, a.Header().Get("Content-Type"))
	}
	text = blanks.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(a.Body.String(), " ")), " ")
	text = strings.NewReplacer(" , ", ", ", " : ", ": ", " . ", ". ").Replace(text)
	if _, answer, shown := strings.Cut(text, "When it comes back"); shown && path == "/" && !comesBack.MatchString(answer) {
		r.Errorf("it does not say which units come back when:\n%s", text)
	}
	return a.Body.String(), text
}

// comesBack matches each answer to the third question: an amount and a time, or that there is
// nothing to come back.
var comesBack = regexp.MustCompile(`^ ([^.]*? with at least [\d,]+ units? free )?(All )?[\d,]+ units? at \d\d:\d\d UTC|^ Nothing is used [^.]*?, and [\d,]+ units? are free|^ Known again when the (ledger answers|usage is put back)`)

// reads fails unless a page says all of these.
func (r *rig) reads(path string, want ...string) {
	r.Helper()
	_, text := r.page(path)
	for _, w := range want {
		if !strings.Contains(text, w) {
			r.Errorf("%s does not say %q:\n%s", path, w, text)
		}
	}
}

func TestTheFirstScreenAnswers(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("retention")
	r.RunOnTime("trending")
	r.reads("/", "Available - Headroom", "The next run, trending at 20:15 UTC (in 15 min), can start It needs about 4 units. youtube/units has 9,496 of 9,500 left in 24 h.",
		"Who spent it CSV 4 of 9,500 youtube/units, in 24 h", "trending job 4 100%", "When it comes back All 4 units at 20:01 UTC tomorrow (in 24 h)",
		"All 2 charts and searches are fresh", "The last run, trending at 20:00 UTC (now), is done. It spent 4 units")
	if source, text := r.page("/"); strings.Contains(text, " Also ") || !strings.Contains(source, `href="/static/icon-good.svg"`) || !strings.Contains(source, `<details class="card pool line" id="pool-youtube/units">`) {
		t.Errorf("a healthy pool is more than one line:\n%s", text)
	}
}

// TestNobodyHasStartedARun: that runs can start is no news as long as nobody is there who starts them.
func TestNobodyHasStartedARun(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("retention")
	r.Run("trending")
	r.reads("/", "Not started - Headroom", "The next run, trending at 20:15 UTC (in 15 min), can start", "No daemon was ever seen here, and no timer has made a run. To start one: ingestor run.")
	r.Clock.Advance(15 * time.Minute)
	r.RunOnTime("trending")
	r.reads("/", "Available - Headroom")
}

func TestNothingCanGo(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 4, headroom: 0}}}}", nil)
	r.Run("trending")
	r.reads("/", "Used up until 20:01 UTC tomorrow - Headroom", "No run that needs units can start before 20:01 UTC tomorrow (in 24 h) youtube/units has 0 of 4 left in 24 h.",
		"trending job 4 100%", "When it comes back All 4 units at 20:01 UTC tomorrow (in 24 h)")
	_, text := r.page("/")
	for fact, most := range map[string]int{"cannot start": 0, "No run that needs units can start": 1, "0 of 4 left": 1} { // once
		if n := strings.Count(text, fact); n != most {
			t.Errorf("it says %q %d times", fact, n)
		}
	}
}

func TestARunThatCanGoInPart(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 7, headroom: 1}}}}", nil)
	r.Run("trending")
	r.reads("/", "can start but not finish It needs about 4 units. youtube/units has 2 of 6 left in 24 h. The rest resumes by itself.",
		"When it comes back All 4 units at 20:01 UTC tomorrow", "trending at 20:15 UTC (in 15 min) is the first run that lacks units")
}

// TestOneRunCanGoOthersCannot: that the next run draws on another account must not hide
// that the others wait.
func TestOneRunCanGoOthersCannot(t *testing.T) {
	config := viewtest.Hourly()
	config.Jobs["elsewhere"] = ingest.Job{Kind: ingest.Trending, Account: "second", Cron: "5 * * * *", Pages: 1}
	r := newRig(t, "upstreams: {youtube: {accounts: {default: {}, second: {}}, pools: {units: {quota: 4, headroom: 0}}}}", config)
	r.Run("elsewhere")
	r.Run("trending")
	r.reads("/", "Available in part The next run, elsewhere at 20:05 UTC (in 5 min), can start",
		"trending cannot start before 20:01 UTC tomorrow (in 24 h): youtube/units has 0 of 4 left in 24 h.", "trending job 4 100%")
}

// TestTheMorningAfter: at midnight in California the day begins anew, but what was used
// yesterday still counts in 24h.
func TestTheMorningAfter(t *testing.T) {
	config := viewtest.Hourly()
	job := config.Jobs["trending"]
	job.Cron = "15 9 * * *"
	config.Jobs["trending"] = job
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 4, headroom: 0}}}}", config)
	r.Run("trending")
	r.reads("/", "All 4 units at 08:01 UTC tomorrow (in 12 h)")
	r.Clock.Advance(12*time.Hour + 30*time.Minute)
	r.reads("/", "4 of 4 in 24 h", "4 are left since midnight Pacific. trending at 09:15 UTC (in 45 min) is the first run that lacks units in 24 h.")
}

func TestAPoolThatWillNotLast(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 10, headroom: 0}}}}", nil)
	r.RunOnTime("trending")
	r.reads("/", "Available", "Until 08:00 UTC tomorrow (in 12 h), runs need about 48 units", "will not last", "trending at 21:15 UTC (in 1 h 15 min) is the first run that lacks units")
}

func TestWhoSpentItIsNotARun(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 124, headroom: 0}}}}", nil)
	r.Run("trending")
	_, err := r.Ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, 120, "tried things out")
	r.Must(err)
	r.reads("/", "Used up", "corrections corrected by hand 120 97% trending job 4 3%")
	_, err = r.Ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, 100, "tried more (by anna)")
	r.Must(err)
	r.reads("/", "corrections corrected by hand 120 53% anna person 100 45% trending job 4 2%")
}

func TestARunThatNobodyMade(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	r.Clock.Advance(30 * time.Minute)
	r.reads("/", "Available, not running", "trending was due at 20:15 UTC (15 min ago) and has not run")
	run, err := r.Catalog.Begin(t.Context(), catalog.Start{Job: "trending", Scheduled: viewtest.Noon.Add(15 * time.Minute)})
	r.Must(err)
	r.reads("/", "Available", "trending has been running since 20:30 UTC (now), with 0 units so far")
	r.Must(run.EndWork(t.Context(), "DE", "DE", catalog.Outcome{State: catalog.Failed, Error: "503"}))
	r.Must(run.End(t.Context(), catalog.Outcome{State: catalog.Failed}))
	r.reads("/", "The last run of trending, 20:30 UTC (now), failed for DE. To see why: ingestor runs. Show")
}

func TestRunsThatNobodyMadeAreCounted(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	r.Clock.Advance(3*time.Hour + 30*time.Minute)
	r.reads("/", "Available, not running", "trending was due 4 times since 20:15 UTC (3 h 15 min ago) and has not run")
}

func TestARunThatCanNeverGo(t *testing.T) {
	config := viewtest.Hourly()
	job := config.Jobs["trending"]
	job.Class = "backfill" // leaves 30% free
	config.Jobs["trending"] = job
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 400, headroom: 0}}, methods: {videos.list: 300}}}", config)
	r.reads("/", "Impossible", "can never start Its class may use 280 of youtube/units, and its first call costs more")
}

func TestABlockInPlainWords(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	r.Must(r.Ledger.Block(t.Context(), pool, viewtest.Noon.Add(2*time.Hour), "quotaExceeded <b>"))
	r.reads("/", "Blocked until 22:00 UTC - Headroom", "youtube/units is blocked by the upstream.", "What the upstream said quotaExceeded <b>",
		"When it comes back youtube/units opens at 22:00 UTC (in 2 h), with at least 9,496 units free All 4 units at")
	r.Must(r.Ledger.Block(t.Context(), pool, viewtest.Noon.Add(3*time.Hour), quota.ByHand("the console says so")))
	r.reads("/", "The next run, trending, cannot start before 23:00 UTC (in 3 h) youtube/units is blocked by hand: the console says so.")
	r.Must(r.Ledger.Block(t.Context(), pool, viewtest.Noon.Add(4*time.Hour), quota.ByHand("maintenance (by anna)")))
	r.reads("/", "youtube/units is blocked by anna: maintenance.")
	if source, _ := r.page("/"); strings.Contains(source, "the upstream has") || strings.Contains(source, "by the upstream") {
		t.Error("it says that the upstream has shut what a person has")
	}
}

func TestAPoolWhoseCallsSpill(t *testing.T) {
	const calls = ", pools: {calls: {quota: 10, windows: [{per: 1h}]}}, methods: {ask: {route: POST /ask, cost: 1}}}"
	r := newRig(t, "upstreams: {west: {hosts: [west.example.com], spill: east"+calls+", east: {hosts: [east.example.com]"+calls+"}", nil)
	if _, text := r.page("/"); strings.Contains(text, "Calls that lack units") {
		t.Error("it says that calls spill while all units are left")
	}
	r.Must(r.Ledger.Block(t.Context(), quota.Pool{Upstream: "west", Account: "default", Name: "calls"}, viewtest.Noon.Add(time.Hour), "too fast"))
	r.reads("/", "Calls that lack units go to east.")
}

func TestAPoolWhoseCallsAreSpaced(t *testing.T) {
	r := newRig(t, "upstreams: {west: {hosts: [west.example.com], feedback: [{pool: calls, remaining: {header: Left}}], pools: {calls: {quota: 3600, windows: [{per: 1h}]}}, methods: {ask: {route: POST /ask, cost: 1}}}}", nil)
	pool := quota.Pool{Upstream: "west", Account: "default", Name: "calls"}
	ask := func() {
		_, err := r.Ledger.Reserve(t.Context(), quota.Call{Upstream: "west", Method: "ask"})
		r.Must(err)
	}
	for range 8 {
		ask()
	}
	r.Must(r.Ledger.BlockFor(t.Context(), pool, 4*time.Second, quota.Unexplained("too fast")))
	r.Clock.Advance(4 * time.Second)
	ask()
	r.reads("/", "Its calls are spaced since 2026-11-20 20:00:04 UTC, sending 1.6 a second: the upstream refused one though units were left.")
}

func TestPagesInAnOutage(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	servers, err := redisstore.Dial("redis://127.0.0.1:1")
	r.Must(err)
	defer servers.Close()
	store, err := redisstore.New(servers, nil)
	r.Must(err)
	lost, err := quota.New(r.Book(""), store, &quota.Options{Clock: r.Clock})
	r.Must(err)
	r.src.Ledger = lost
	r.reads("/", "It is not known whether the next run, trending at 20:15 UTC (in 15 min), can start The ledger cannot be reached.",
		"Until the ledger answers, the calls of trending (videos.list) are admitted within a small allowance", "Known again when the ledger answers", "The remaining units are not known now", "trending job 4 100%")
	r.reads("/regions", "20:00 UTC (now) 100")
	if source, _ := r.page("/"); strings.Contains(source, "127.0.0.1:1") {
		t.Error("it tells the address of the ledger")
	}
}

func TestPagesOfALedgerThatForgot(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	forgot := func(context.Context) error {
		return &quota.ForgottenError{Pool: quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, Born: viewtest.Noon.Add(-time.Hour)}
	}
	r.Store.Before.Store(&forgot)
	r.reads("/", "It is not known whether the next run, trending at 20:15 UTC (in 15 min), can start The ledger has forgotten what was spent of youtube/units since 19:00 UTC (1 h ago)",
		"Look up today's usage in the upstream's console, then run: ingestor quota adjust youtube/units UNITS --reason TEXT")
}

// TestOneForgottenPool: spend that was forgotten stops only the jobs that charge its pool, and hides no other one.
func TestOneForgottenPool(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	r.Store.Lost.Store(&quota.ForgottenError{Pool: quota.Pool{Upstream: "youtube", Account: "default", Name: "searches"}, Born: viewtest.Noon.Add(-time.Hour)})
	_, text := r.page("/")
	for _, want := range []string{
		"Available in part", "The next run, trending at 20:15 UTC (in 15 min), can start", "4 of 9,500",
		"The ledger has forgotten what was spent of youtube/searches since 19:00 UTC (1 h ago). Look up today's usage", "ingestor quota adjust youtube/searches UNITS --reason TEXT",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "It is not known") || strings.Contains(text, "when the ledger answers") {
		t.Errorf("the page does not know what can be known:\n%s", text)
	}
}

func TestPagesWithoutACatalog(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	r.Must(r.Catalog.Close())
	r.reads("/", "No run can do its work", "The catalog cannot be read", "4 of 9,500 in 24 h")
	r.reads("/runs", "The catalog cannot be read now")
	r.reads("/regions", "The catalog cannot be read now")
	r.reads("/search?q=x", "The catalog cannot be read now")
	r.reads("/regions/DE", "The catalog cannot be read now")
}

// TestAFactIsSaidOnce: another job that waits for the same units does not say again why.
func TestAFactIsSaidOnce(t *testing.T) {
	config := viewtest.Hourly()
	config.Jobs["music"] = ingest.Job{Kind: ingest.Trending, Cron: "45 * * * *", Pages: 2}
	config.Jobs["news"] = ingest.Job{Kind: ingest.Search, Cron: "50 * * * *", Queries: []string{"music"}, Pages: 1} // has other units
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 3, headroom: 0}}}}", config)
	r.spend(3, "elsewhere", "", "")
	_, text := r.page("/")
	if !strings.Contains(text, " cannot start before 20:01 UTC tomorrow (in 24 h). Show") {
		t.Errorf("no note says that the other job waits:\n%s", text)
	}
	if n := strings.Count(text, "youtube/units has 0 of 3 left in 24 h"); n != 1 {
		t.Errorf("it says %d times why:\n%s", n, text)
	}
	for range 3 {
		r.Run("trending")
	}
	r.reads("/runs", "youtube/units had too few units left (3 times since 2026-11-20 20:00 UTC)")
}

func TestTheDayOfAPool(t *testing.T) {
	r := pagesOf(viewtest.NewDay(t))
	r.reads("/", "news cannot start before 21:51 UTC (in 1 h 11 min): youtube/searches has 0 of 27 left in 24 h.", "used up", "news job 27 100%",
		"4 units at 21:51 UTC (in 1 h 11 min) All 27 by 15:51 UTC tomorrow", "is the first run that lacks units in 24 h", "Not in use: youtube/uploads")
	r.reads("/regions", "DE news 12:50 UTC (7 h 50 min ago) fresh", "US, Music 16:45 UTC (3 h 55 min ago) 199 fresh")
	r.reads("/history?pool=youtube%2Fsearches", "2 calls refused")
	r.reads("/runs", "youtube/searches had too few units left. Resumes at 21:51 UTC (in 1 h 11 min)", "BR: The upstream answered with an error")
	source, _ := r.page("/?by=method")
	for _, want := range []string{"Units of youtube/units that count in 24 h by method", `12:00 UTC: 16 units of videos.list`} {
		if !strings.Contains(source, want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// TestTitlesAreHostile: a title of any text adds no elements to a page.
func TestTitlesAreHostile(t *testing.T) {
	r := newRig(t, "", nil)
	r.FetchHostile()
	for _, path := range []string{"/runs/1", "/regions/GB", "/search?q=sayonara", "/search?q=" + "%3Cscript%3E%22%27"} {
		source, text := r.page(path)
		if n := strings.Count(source, "<script"); n != 1 {
			t.Errorf("%s has %d scripts", path, n)
		}
		for _, never := range []string{"\u009b", "\u202e", "\u2066", "\x1b", "<img", "onerror=\"", "style=", "javascript:"} {
			if strings.Contains(source, never) {
				t.Errorf("%s has %s", path, never)
			}
		}
		if !strings.Contains(path, "q=%") && !strings.Contains(text, `document.title="taken"`) {
			t.Errorf("%s does not show the title", path)
		}
	}
}

func TestPagesAreStrict(t *testing.T) {
	r := newRig(t, "", nil)
	for path, status := range map[string]int{
		"/": 200, "/?by=method": 200, "/?by=nonsense": 200, "/search": 200, "/search?q=a&cursor=%ff": 200, "/regions/us": 200,
		"/regions/XX": 404, "/regions/%3Cb%3E": 404, "/static/nothing": 404, "/static/dashboard.css": 200, "/static/dashboard.js": 200,
	} {
		a := r.ask(path)
		if a.Code != status {
			t.Errorf("%s: %d", path, a.Code)
		}
		policy := a.Header().Get("Content-Security-Policy")
		if strings.HasPrefix(path, "/static/") && status == 200 {
			continue // the server sets a policy for every answer
		}
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: its policy is %q", path, policy)
		}
	}
	file := r.ask("/static/dashboard.css").Header().Get("ETag")
	if a := r.ask("/static/dashboard.css", "If-None-Match", file); file == "" || a.Code != http.StatusNotModified || a.Body.Len() > 0 {
		t.Errorf("the same file is sent again: %d", a.Code)
	}
	tag := r.ask("/").Header().Get("ETag")
	if a := r.ask("/", "If-None-Match", tag); a.Code != http.StatusNotModified || a.Body.Len() > 0 {
		t.Errorf("the same page is sent again: %d", a.Code)
	}
	r.Run("trending")
	if a := r.ask("/", "If-None-Match", tag); a.Code != http.StatusOK {
		t.Errorf("another page is not sent: %d", a.Code)
	}
}

func TestSearchPageByPage(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	more := regexp.MustCompile(`class="more" href="([^"]+)"`)
	seen, path := map[string]bool{}, "/search?q=the"
	for range 3 {
		source, _ := r.page(path)
		for _, link := range regexp.MustCompile(`https://youtu.be/[^"]+`).FindAllString(source, -1) {
			if seen[link] {
				t.Errorf("%s is there twice", link)
			}
			seen[link] = true
		}
		if path == "/search?q=the" && !strings.Contains(strings.ToLower(source), "<mark>the") {
			t.Error("nothing is marked")
		}
		next := more.FindStringSubmatch(source)
		if next == nil {
			break
		}
		path = html.UnescapeString(next[1])
	}
	if len(seen) == 0 {
		t.Error("nothing was found")
	}
}

// TestPagesAgreeOnTheNextRun: the first page says of each job when it runs next and whether it
// can, and Runs and Regions say the same.
func TestPagesAgreeOnTheNextRun(t *testing.T) {
	config := viewtest.Hourly()
	config.Jobs["often"] = ingest.Job{Kind: ingest.Search, Cron: "* * * * *", Queries: []string{"music"}, Pages: 1}
	r := newRig(t, "", config)
	r.Run("trending")
	r.Run("often")
	r.reads("/", "Job Next Can it start?", "often 20:01 UTC (in 1 min) yes", "trending 20:15 UTC (in 15 min) yes")
	r.reads("/runs", "often * * * * * 20:01 UTC (in 1 min) yes", "20:15 UTC (in 15 min) yes")
	r.Must(r.Ledger.Block(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, viewtest.Noon.Add(2*time.Hour), "quotaExceeded"))
	r.reads("/", "trending 22:00 UTC (in 2 h) waits for the end of a block", "often 20:01 UTC (in 1 min) yes")
	r.reads("/runs", "22:00 UTC (in 2 h) waits for the end of a block")
	if _, text := r.page("/regions"); !strings.Contains(text, "22:00 UTC") || strings.Contains(text, "20:15 UTC") {
		t.Errorf("the next run of a chart is another one:\n%s", text)
	}
	r.Clock.Advance(16*time.Minute + time.Second)
	r.reads("/", "often 20:17 UTC (in 59 s) yes. Missed: 16 runs since 20:01 UTC")
	r.reads("/runs", "20:17 UTC (in 59 s) yes. Missed: 16 runs since 20:01 UTC")
	if _, text := r.page("/"); strings.Count(text, "often was due 16 times since 20:01 UTC") != 1 {
		t.Errorf("it does not say once that often was missed:\n%s", text)
	}
}
