package web_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	blanks = regexp.MustCompile(`\s+`)
)

// page asks for a page and returns it, as HTML and as what a person reads.
func (r *rig) page(path string) (source, text string) {
	r.Helper()
	a := r.ask("GET", path, "")
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		r.Fatalf("%s: %s of %s", path, a.Status, a.Header.Get("Content-Type"))
	}
	text = blanks.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(a.body, " ")), " ")
	return a.body, strings.NewReplacer(" , ", ", ", " : ", ": ", " . ", ". ").Replace(text)
}

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
	r := newRig(t, nil)
	r.run("retention")
	r.run("trending")
	r.reads("/", "The next run, trending at 20:15 UTC (in 15 min), can go: it needs about 4 units, and 9,496 are left of youtube/units",
		"No pool is shut, ledger and catalog answer, and every chart is fresh")
}

func TestNothingCanGo(t *testing.T) {
	r := newRigOf(t, nil, "upstreams: {youtube: {pools: {units: {quota: 4, headroom: 0}}}}", hourly())
	r.run("trending")
	r.reads("/", "No run can go before 20:01 UTC tomorrow (in 24 h): youtube/units is used up (4 of 4 in 24h)",
		"Who spent it in the last 24 hours: trending 4.",
		"retention and trending cannot go before 20:01 UTC tomorrow (in 24 h): youtube/units is used up (4 of 4 in 24h)") // one note of both
}

func TestARunThatCanGoInPart(t *testing.T) {
	r := newRigOf(t, nil, "upstreams: {youtube: {pools: {units: {quota: 7, headroom: 1}}}}", hourly())
	r.run("trending")
	r.reads("/", "can go in part: it needs about 4 units, and 2 are left of youtube/units in 24h", "What is left over is deferred",
		"It does not fit: trending at 20:15 UTC (in 15 min) is the first that finds too little")
}

// TestOneRunCanGoOthersCannot: that the next run draws on another account must not hide
// that the others wait.
func TestOneRunCanGoOthersCannot(t *testing.T) {
	config := hourly()
	config.Jobs["elsewhere"] = ingest.Job{Kind: ingest.Trending, Account: "second", Cron: "5 * * * *", Pages: 1}
	r := newRigOf(t, nil, "upstreams: {youtube: {accounts: {default: {}, second: {}}, pools: {units: {quota: 4, headroom: 0}}}}", config)
	r.run("elsewhere")
	r.run("trending")
	r.reads("/", "It can go, others cannot The next run, elsewhere at 20:05 UTC (in 5 min), can go",
		"trending and retention cannot go before 20:01 UTC tomorrow (in 24 h): youtube/units is used up (4 of 4 in 24h).", "Who spent it in the last 24 hours: trending 4.")
}

// TestTheMorningAfter: at midnight in California the day begins anew, but what was used
// yesterday still counts in 24h.
func TestTheMorningAfter(t *testing.T) {
	config := hourly()
	job := config.Jobs["trending"]
	job.Cron = "15 9 * * *"
	config.Jobs["trending"] = job
	r := newRigOf(t, nil, "upstreams: {youtube: {pools: {units: {quota: 4, headroom: 0}}}}", config)
	r.run("trending")
	r.reads("/", "all at 08:01 UTC tomorrow (in 12 h), 1 min after the reset, as clocks differ")
	r.clock.Advance(12*time.Hour + 30*time.Minute)
	r.reads("/", "0 of 4 used today in Los Angeles", "4 of 4 used in 24h",
		"It does not fit: trending at 09:15 UTC (in 45 min) is the first that finds too little in 24h")
}

func TestAPoolThatWillNotLast(t *testing.T) {
	r := newRigOf(t, nil, "upstreams: {youtube: {pools: {units: {quota: 10, headroom: 0}}}}", hourly())
	r.run("trending")
	r.reads("/", "It can go", "youtube/units will not last until 08:00 UTC tomorrow (in 12 h): trending at 21:15 UTC (in 1 h 15 min) is the first that finds too little")
}

// TestErrorsForPeople: who asks with a browser for what is not there, or too often, is
// told in a page; programs are told as before.
func TestErrorsForPeople(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	r := newLimitedRig(t, nil, "families: {client: {quota: 3, windows: [{per: 1m, algorithm: counter}]}}")
	reads := func(method, path string, status int, want string) {
		t.Helper()
		a := r.ask(method, path, "", "Accept", browser)
		if a.StatusCode != status || a.Header.Get("Content-Type") != "text/html; charset=utf-8" || a.Header.Get("Vary") != "Accept" ||
			!strings.Contains(a.Header.Get("Content-Security-Policy"), "style-src 'self'") || !strings.Contains(a.body, want) {
			t.Errorf("%s %s: %s, %v\n%s", method, path, a.Status, a.Header, a.body)
		}
	}
	reads("GET", "/nothing", 404, "There is no such page")
	reads("POST", "/", 405, "Method Not Allowed")
	r.problem(404, "GET", "/api/v1/nothing", "", "Accept", browser)
	reads("GET", "/", 429, "Too Many Requests")
	if a := r.ask("GET", "/", "", "Accept", browser); a.Header.Get("Retry-After") == "" {
		t.Error("nobody is told when to come again")
	}
	r.problem(429, "GET", "/", "")
	r.problem(429, "GET", "/api/v1/quota", "", "Accept", browser)
}

func TestWhoSpentItIsNotARun(t *testing.T) {
	r := newRigOf(t, nil, "upstreams: {youtube: {pools: {units: {quota: 124, headroom: 0}}}}", hourly())
	r.run("trending")
	_, err := r.ledger.Adjust(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, 120, "tried things out")
	r.must(err)
	r.reads("/", "Nothing can go", "Who spent it in the last 24 hours: trending 4, others than runs 120.",
		"120 more were used by others than runs, at hours that are not recorded")
}

func TestARunThatNobodyMade(t *testing.T) {
	r := newRig(t, nil)
	r.run("trending")
	r.clock.Advance(30 * time.Minute)
	r.reads("/", "It could go", "But it was due at 20:15 UTC (15 min ago), and nobody has run it")
	run, err := r.catalog.Begin(t.Context(), catalog.Start{Job: "trending", Scheduled: noon.Add(15 * time.Minute)})
	r.must(err)
	r.reads("/", "It can go", "trending is under way since 20:30 UTC (now), with 0 units so far")
	r.must(run.EndWork(t.Context(), "DE", "DE", catalog.Outcome{State: catalog.Failed, Error: "503"}))
	r.must(run.End(t.Context(), catalog.Outcome{State: catalog.Failed}))
	r.reads("/", "The last run of trending, 20:30 UTC (now), failed for DE: 503")
}

func TestARunThatCanNeverGo(t *testing.T) {
	config := hourly()
	job := config.Jobs["trending"]
	job.Class = "backfill" // leaves 30% free
	config.Jobs["trending"] = job
	r := newRigOf(t, nil, "upstreams: {youtube: {pools: {units: {quota: 400, headroom: 0}}, methods: {videos.list: 300}}}", config)
	r.reads("/", "It cannot go", "can never go: its class may use 280 of youtube/units, and its first call costs more")
}

func TestABlockInPlainWords(t *testing.T) {
	r := newRig(t, nil)
	r.run("trending")
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	r.must(r.ledger.Block(t.Context(), pool, noon.Add(2*time.Hour), "quotaExceeded <b>"))
	r.reads("/", "youtube/units is shut by the upstream for everybody until 22:00 UTC (in 2 h) (quotaExceeded <b>). It opens by itself")
	r.must(r.ledger.Block(t.Context(), pool, noon.Add(3*time.Hour), quota.ByHand("the console says so")))
	r.reads("/", "youtube/units is shut by hand for everybody until 23:00 UTC (in 3 h) (the console says so). It opens by itself",
		"cannot go before 23:00 UTC (in 3 h): youtube/units is shut by hand (the console says so)")
	if source, _ := r.page("/"); strings.Contains(source, "the upstream has") || strings.Contains(source, "by the upstream") {
		t.Error("it says that the upstream has shut what a person has")
	}
}

func TestPagesInAnOutage(t *testing.T) {
	r := newRig(t, nil)
	r.run("trending")
	servers, err := redisstore.Dial("redis://127.0.0.1:1")
	r.must(err)
	defer servers.Close()
	store, err := redisstore.New(servers, nil)
	r.must(err)
	lost, err := quota.New(r.book(generous), store, &quota.Options{Clock: r.clock})
	r.must(err)
	r.must(r.server.Update(web.Sources{Sources: view.Sources{Ledger: lost, Catalog: r.catalog, Runner: r.runner, Jobs: r.config.List()}}, lost.Book()))
	r.reads("/", "Nobody can say whether the next run, trending at 20:15 UTC (in 15 min), can go: the ledger cannot be reached",
		"Its calls (videos.list) are admitted meanwhile within a small allowance", "Nothing is known of the pools: the ledger cannot be reached. What runs did is known from the catalog", "What is left is not known just now", "trending 4 100%", "20:00 UTC (now) 100")
	if source, _ := r.page("/"); strings.Contains(source, "127.0.0.1:1") {
		t.Error("it tells the address of the ledger")
	}
}

func TestPagesOfALedgerThatForgot(t *testing.T) {
	r := newRig(t, nil)
	r.run("trending")
	forgot := func(context.Context) error {
		return &quota.ForgottenError{Pool: quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, Born: noon.Add(-time.Hour)}
	}
	r.store.before.Store(&forgot)
	r.reads("/", "Nobody can say whether the next run, trending at 20:15 UTC (in 15 min), can go: the ledger has forgotten what was spent of youtube/units since 19:00 UTC (1 h ago)",
		"Find out how much it was, from the upstream's console, and put it back: ingestor quota adjust youtube/units")
}

func TestPagesWithoutACatalog(t *testing.T) {
	r := newRig(t, nil)
	r.run("trending")
	r.must(r.catalog.Close())
	r.reads("/", "The catalog cannot be read", "can go", "4 of 9,500 used in 24h")
	r.reads("/search?q=x", "The catalog cannot be read just now")
	r.reads("/regions/DE", "The catalog cannot be read just now")
}

func TestTheDayOfAPool(t *testing.T) {
	r := newDay(t)
	r.reads("/", "news goes on by itself at 21:51 UTC", "youtube/searches is used up (27 of 27 in 24h)", "used up", "It does not fit",
		"DE news fresh", "US/10 fresh", "Not in use: youtube/uploads")
	source, _ := r.page("/?by=method")
	for _, want := range []string{"Units of youtube/units by method in the last 24 hours", `12:00 UTC: 16 units of videos.list`} {
		if !strings.Contains(source, want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// TestTitlesAreHostile: whatever the upstream calls a video, the page has no more
// elements for it than for any other.
func TestTitlesAreHostile(t *testing.T) {
	r := newRig(t, nil)
	r.fetchWicked()
	for _, path := range []string{"/", "/regions/GB", "/search?q=sayonara", "/search?q=" + "%3Cscript%3E%22%27"} {
		source, text := r.page(path)
		if n := strings.Count(source, "<script"); n != 1 {
			t.Errorf("%s has %d scripts", path, n)
		}
		for _, never := range []string{"<img", "onerror=\"", "style=", "javascript:"} {
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
	r := newRig(t, nil)
	for path, status := range map[string]int{
		"/": 200, "/?by=method": 200, "/?by=nonsense": 200, "/search": 200, "/search?q=a&cursor=%ff": 200, "/regions/us": 200,
		"/regions/XX": 404, "/regions/%3Cb%3E": 404, "/static/nothing": 404, "/static/dashboard.css": 200, "/static/dashboard.js": 200,
	} {
		a := r.ask("GET", path, "")
		if a.StatusCode != status {
			t.Errorf("%s: %s", path, a.Status)
		}
		policy := a.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: its policy is %q", path, policy)
		}
	}
	tag := r.ask("GET", "/", "").Header.Get("ETag")
	if a := r.ask("GET", "/", "", "If-None-Match", tag); a.StatusCode != http.StatusNotModified || a.body != "" {
		t.Errorf("the same page is sent again: %s", a.Status)
	}
	r.run("trending")
	if a := r.ask("GET", "/", "", "If-None-Match", tag); a.StatusCode != http.StatusOK {
		t.Errorf("another page is not sent: %s", a.Status)
	}
}

func TestSearchPageByPage(t *testing.T) {
	r := newRig(t, nil)
	r.run("trending")
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
	if fmt.Sprint(len(seen)) == "0" {
		t.Error("nothing was found")
	}
}
