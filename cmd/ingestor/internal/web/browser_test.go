//go:build browser

package web_test

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// newDay returns a server over a rig that has lived a day.
func newDay(t *testing.T) *rig {
	t.Helper()
	o := viewtest.Day()
	o.Prices = generous + "\n" + o.Prices
	r := newRigOf(t, nil, o)
	r.LiveADay()
	anna, err := access.New("anna", annas, access.Operate)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{anna}}, r.Ledger.Book()))
	return r
}

// TestBrowser looks at the pages in a real browser. With -artifacts it leaves pictures
// of them; with UPDATE=1 it writes that of the README anew.
func TestBrowser(t *testing.T) {
	r := newDay(t)
	program, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox)...) // it sees pages of ours only, and may be root in CI
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(program)
	t.Cleanup(cancel)
	r.Must(chromedp.Do(browser))
	r.FetchHostile()

	t.Run("pictures", func(t *testing.T) {
		t.Parallel()
		pictured(newTab(t, browser), newDay(t))
	})
	t.Run("it updates itself", func(t *testing.T) {
		t.Parallel()
		updates(newTab(t, browser), r)
	})
	t.Run("it says when it is not up to date", func(t *testing.T) {
		t.Parallel()
		goesStale(newTab(t, browser), r)
	})
	t.Run("search finds", func(t *testing.T) {
		t.Parallel()
		finds(newTab(t, browser), r)
	})
	t.Run("without JavaScript", func(t *testing.T) {
		t.Parallel()
		tab := newTab(t, browser)
		_, err := chromedp.Call(tab.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		tab.must(err)
		finds(tab, r)
		tab.open(r.url + "/")
		tab.shows("The next run, music at 20:45 UTC", "Reload the page to see what is new", "Times are UTC", "by method")
		if tip := eval[string](tab, "document.querySelector('time').title"); tip != "" {
			t.Errorf("a time has the tooltip %q", tip)
		}
	})
	t.Run("a title stays text", func(t *testing.T) {
		t.Parallel()
		tab := newTab(t, browser)
		for _, path := range []string{"/regions/GB", "/search?q=sayonara", hostileRun(r)} {
			tab.open(r.url + path)
			tab.do("document.querySelectorAll('details').forEach((d) => { d.open = true })")
			tab.shows(view.Plain(viewtest.Hostile))
			if title := eval[string](tab, "document.title"); !strings.HasSuffix(title, "Headroom") {
				t.Errorf("%s: a title was taken for code: %q", path, title)
			}
			if n := eval[int](tab, "document.querySelectorAll('img, script:not([src]), [style], [onerror]').length"); n != 0 {
				t.Errorf("%s: a title has brought %d elements", path, n)
			}
		}
		tab.quiet()
	})
	t.Run("times are local", func(t *testing.T) {
		t.Parallel()
		local(newTab(t, browser), r)
	})
	t.Run("a person acts", func(t *testing.T) {
		t.Parallel()
		acts(newTab(t, browser), newActed(t))
	})
	t.Run("it rests while nobody looks", func(t *testing.T) {
		t.Parallel()
		rests(newTab(t, browser), newRig(t, nil))
	})
	t.Run("axe finds nothing", func(t *testing.T) {
		t.Parallel()
		r := newDay(t)
		r.FetchHostile()
		src := *r.server.Current()
		src.Fleet = someFleet{}
		r.Must(r.server.Update(src, r.Ledger.Book()))
		accessible(newTab(t, browser), r)
	})
	t.Run("long names wrap", func(t *testing.T) {
		t.Parallel()
		name := strings.Repeat("long_", 11) + "name"
		config := viewtest.Hourly()
		config.Jobs[name] = config.Jobs["trending"]
		r := newRigOf(t, nil, &viewtest.Options{Prices: generous, Config: config})
		r.Run(name)
		fits(newTab(t, browser), r.url+"/", 375, 768, 1280)
	})
	t.Run("charts can be read", func(t *testing.T) {
		t.Parallel()
		legible(newTab(t, browser), r)
	})
	t.Run("tables are tables on a phone", func(t *testing.T) {
		t.Parallel()
		tabular(newTab(t, browser), r)
	})
	t.Run("a region is two lines on a phone, with its last run and its next", func(t *testing.T) {
		t.Parallel()
		tab := newTab(t, browser)
		tab.size(390)
		tab.open(r.url + "/regions")
		if runs := eval[[]string](tab, "[...document.querySelectorAll('main tbody td')].filter((c) => c.dataset.of.endsWith(' run') && c.offsetHeight > 0).map((c) => c.innerText)"); len(runs) < 6 || !strings.Contains(runs[0], "ago") {
			t.Errorf("of the runs it shows %q", runs)
		}
		if tall := eval[[]float64](tab, "[...document.querySelectorAll('main tbody tr')].map((r) => r.getBoundingClientRect().height)"); len(tall) < 3 || slices.Max(tall) > 80 {
			t.Errorf("the regions are so high: %v", tall)
		}
	})
	t.Run("no horizontal scroll", func(t *testing.T) {
		t.Parallel()
		tab := newTab(t, browser)
		for _, path := range []string{
			"/", "/?by=method", "/search?q=the", "/search?q=sayonara", "/regions", "/regions/DE?category=10", "/regions/GB", "/regions/none",
			"/runs", hostileRun(r), "/history?range=1y", "/history?by=region", "/act/block?pool=youtube%2Funits", "/act/limit?family=client",
		} {
			fits(tab, r.url+path, 320)
		}
		fits(tab, r.url+"/", 375, 768)
		fits(tab, r.url+"/history", 768)
	})
}

// hostileRun returns the path of the run whose errors are hostile.
func hostileRun(r *rig) string {
	r.Helper()
	all, err := r.Catalog.Runs(r.Context(), catalog.RunsQuery{Job: "elsewhere", Limit: 1})
	r.Must(err)
	return fmt.Sprintf("/runs/%d", all[0].ID)
}

// fits fails if a page has to be scrolled sideways on screens so wide.
func fits(tab *tab, url string, widths ...int64) {
	for _, width := range widths {
		tab.size(width)
		tab.open(url)
		if wide := eval[int64](tab, "document.documentElement.scrollWidth"); wide > width {
			tab.Errorf("%s is %d wide on a screen of %d: %s", url, wide, width, eval[string](tab, fmt.Sprintf(
				"[...document.querySelectorAll('body *')].findLast((e) => e.getBoundingClientRect().right > %d)?.outerHTML", width)))
		}
	}
}

// tabular looks at what those are told who do not see a table: its rows and headers
// must be there also where they are laid out as something else.
func tabular(tab *tab, r *rig) {
	told := func(width int64) map[string]int {
		tab.size(width)
		tab.open(r.url + "/runs")
		tree, err := chromedp.Call(tab.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		tab.must(err)
		roles := map[string]int{}
		for _, n := range tree.Nodes {
			if n.Role != nil {
				roles[string(n.Role.Value)]++
			}
		}
		return roles
	}
	wide, narrow := told(1280), told(375)
	for _, role := range []string{`"table"`, `"row"`, `"rowheader"`, `"columnheader"`} {
		if wide[role] == 0 || narrow[role] != wide[role] {
			tab.Errorf("of role %s there are %d on a phone and %d on a wide screen", role, narrow[role], wide[role])
		}
	}
}

// updates waits for the page to show a run that was made after it had been loaded.
// The focus, open details and the scroll position stay.
func updates(tab *tab, r *rig) {
	tab.open(r.url + "/")
	tab.do("document.getElementById('pool-youtube/units').open = true; document.getElementById('by-method').focus(); window.scrollTo(0, 300); window.kept = 'the same document'")
	before := eval[int](tab, "window.scrollY")
	r.Run("trending")
	tab.until("!document.getElementById('main').innerText.includes('251 of 360') && document.getElementById('main').innerText.includes('259 of 360')")
	if eval[string](tab, "window.kept") != "the same document" {
		tab.Error("it was loaded anew")
	}
	if id := eval[string](tab, "document.activeElement.id"); id != "by-method" {
		tab.Errorf("the focus is on %q", id)
	}
	if !eval[bool](tab, "document.getElementById('pool-youtube/units').open") {
		tab.Error("what was open was closed")
	}
	if after := eval[int](tab, "window.scrollY"); after != before {
		tab.Errorf("it has scrolled from %d to %d", before, after)
	}
	tab.quiet()
}

// accessible has axe look at each page: on three screens, in the light and in the dark, with
// all details open.
func accessible(tab *tab, r *rig) {
	axe, err := os.ReadFile("../../../../.ci/bin/axe.js")
	if err != nil {
		tab.Fatalf("%v\nTo fetch it: make test-browser", err)
	}
	widths, schemes := []int64{1280, 768, 375}, []string{"light", "dark"}
	look := func(path string, width int64, scheme string) {
		tab.scheme(scheme)
		tab.size(width)
		tab.open(r.url + path)
		tab.do("document.querySelectorAll('details').forEach((d) => { d.open = true })")
		tab.do(string(axe))
		found, err := chromedp.Run(tab.ctx, chromedp.Evaluate[string](`axe.run({ exclude: [["svg.chart > *"]] }, { resultTypes: ["violations"], iframes: false }).then((r) =>
			r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.html).join(" ").slice(0, 600)).join("\n"))`, chromedp.EvalAwaitPromise))
		tab.must(err)
		if found != "" {
			tab.Errorf("%s, %d wide, %s: %s", path, width, scheme, found)
		}
	}
	paths := []string{
		"/", "/regions", "/regions/DE?category=10", "/runs", hostileRun(r), "/history?pool=youtube%2Funits", "/search?q=the", "/act/block?pool=youtube%2Funits", "/act/limit?family=client", "/nothing",
		"/fleet", "/act/adjust?pool=youtube%2Funits", "/act/reset?job=music&work=US", "/act/done", "/?by=method", "/history?by=region&range=1y", "/regions/GB",
	}
	for i, path := range paths[:full(10, len(paths))] {
		look(path, widths[i%3], schemes[i%2])
	}
	look("/", 375, "dark")
	for i := range full(0, len(paths)*6) { // each of them on each screen
		look(paths[i/6], widths[i%3], schemes[i/3%2])
	}
}

// local looks at the times of a page in another time zone, and at the tab.
func local(tab *tab, r *rig) {
	_, err := chromedp.Call(tab.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	tab.must(err)
	tab.open(r.url + "/")
	tab.shows("The next run, music at 02:15 (in 5 min)", "Times are local")
	if tip := eval[string](tab, "document.querySelector('h1 time').title"); tip != "20:45 UTC" {
		tab.Errorf("the tooltip is %q", tip)
	}
	if label := eval[string](tab, "document.querySelector('svg [data-at]').textContent"); !strings.HasSuffix(label, ":30") {
		tab.Errorf("the chart has %q", label)
	}
	if icon := eval[string](tab, "document.querySelector('link[rel=icon]').href"); !strings.HasSuffix(icon, "/static/icon-warn.svg") {
		tab.Errorf("the icon is %s", icon)
	}
	tab.quiet()
}

// acts blocks a pool with the form of the page. The tab of another page shows the verdict.
func acts(tab *tab, r *rig) {
	tab.open(r.url + "/act/block?pool=youtube%2Funits")
	tab.must(chromedp.Do(tab.ctx, chromedp.SendKeys(chromedp.CSS("#in-reason"), "maintenance"), chromedp.SendKeys(chromedp.CSS("#in-token"), annas),
		chromedp.Click(chromedp.CSS("input[name=confirm]")), chromedp.Click(chromedp.CSS("button.do")), chromedp.WaitVisible(chromedp.CSS("main table"))))
	tab.shows("What people did on these pages", "anna", "ingestor quota block youtube/units --for 2h --reason maintenance")
	tab.open(r.url + "/")
	tab.shows("Blocked", "youtube/units is blocked by anna: maintenance")
	if title := eval[string](tab, "document.title"); title != "Blocked until 22:00 - Headroom" {
		tab.Errorf("the tab says %q", title)
	}
	tab.quiet()
}

// finds types what it looks for.
func finds(tab *tab, r *rig) {
	tab.open(r.url + "/search")
	tab.must(chromedp.Do(tab.ctx, chromedp.SendKeys(chromedp.CSS("#q"), "the\r"), chromedp.WaitVisible(chromedp.CSS(".hits mark"))))
	if hits := eval[int](tab, "document.querySelectorAll('.hits > li').length"); hits != 20 {
		tab.Errorf("%d were found", hits)
	}
	if found := eval[string](tab, "document.querySelector('.hits mark').innerText"); !strings.HasPrefix(strings.ToLower(found), "the") {
		tab.Errorf("%q is marked", found)
	}
	tab.quiet()
}

// pictured keeps pictures of pages, in the light, in the dark and on a phone.
func pictured(tab *tab, r *rig) {
	to := tab.ArtifactDir()
	for _, p := range []struct {
		name, path string
		width      int64
		scheme     string
	}{
		{"home", "/", 1280, "light"},
		{"home-dark", "/", 1280, "dark"},
		{"home-tablet", "/?by=method", 768, "dark"},
		{"home-phone", "/", 390, "light"},
		{"home-phone-dark", "/", 390, "dark"},
		{"regions-phone", "/regions", 390, "dark"},
		{"run", "/runs/47", 1280, "light"},
		{"history", "/history?pool=youtube%2Funits", 1280, "dark"},
		{"act", "/act/block?pool=youtube%2Funits", 768, "light"},
	} {
		tab.size(p.width)
		tab.scheme(p.scheme)
		tab.open(r.url + p.path)
		whole, err := chromedp.Run(tab.ctx, chromedp.FullScreenshot(100))
		tab.must(err)
		tab.must(os.WriteFile(filepath.Join(to, p.name+".png"), whole, 0o644))
		if p.name == "home" && os.Getenv("UPDATE") != "" {
			tab.must(os.WriteFile("../../../../testdata/dashboard.png", first(tab, whole, 1110), 0o644))
		}
	}
	tab.quiet()
}

// first is the upper part of a picture.
func first(tab *tab, whole []byte, height int) []byte {
	from, err := png.Decode(bytes.NewReader(whole))
	tab.must(err)
	part := image.NewRGBA(image.Rect(0, 0, from.Bounds().Dx(), height))
	draw.Draw(part, part.Bounds(), from, image.Point{}, draw.Src)
	var out bytes.Buffer
	tab.must((&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, part))
	return out.Bytes()
}
