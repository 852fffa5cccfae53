//go:build browser

package web_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/internal/web/viewtest"
)

// newDay returns a server over a rig that has lived a day.
func newDay(t *testing.T) *rig {
	t.Helper()
	o := viewtest.Day()
	o.Prices = generous + "\n" + o.Prices
	r := newRigOf(t, nil, o)
	r.LiveADay()
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
		tab.shows("The next run, music at", "Reload the page to see what is new", "by method")
	})
	t.Run("a title stays text", func(t *testing.T) {
		t.Parallel()
		tab := newTab(t, browser)
		for _, path := range []string{"/regions/GB", "/search?q=sayonara", "/"} {
			tab.open(r.url + path)
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
	t.Run("it rests while nobody looks", func(t *testing.T) {
		t.Parallel()
		rests(newTab(t, browser), newRig(t, nil))
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
	t.Run("tables are tables on a phone", func(t *testing.T) {
		t.Parallel()
		tabular(newTab(t, browser), r)
	})
	t.Run("no horizontal scroll", func(t *testing.T) {
		t.Parallel()
		tab := newTab(t, browser)
		for _, path := range []string{"/", "/?by=method", "/search?q=the", "/search?q=sayonara", "/regions/DE?category=10", "/regions/GB", "/regions/none"} {
			fits(tab, r.url+path, 375, 320)
		}
	})
}

// fits fails if a page has to be scrolled sideways on screens so wide.
func fits(tab *tab, url string, widths ...int64) {
	for _, width := range widths {
		tab.size(width, 800)
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
		tab.size(width, 800)
		tab.open(r.url + "/")
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

// rests looks whether a page asks for anything while it is hidden; when it is looked at
// again, it is up to date at once.
func rests(tab *tab, r *rig) {
	tab.open(r.url + "/")
	tab.do(`window.asked = 0; window.timers = 0;
		{ const { fetch, setTimeout } = window;
		window.fetch = (...of) => { window.asked++; return fetch(...of) };
		window.setTimeout = (...of) => { window.timers++; return setTimeout(...of) };
		window.look = (hidden) => {
			Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
			document.dispatchEvent(new Event("visibilitychange"));
		};
		look(true) }`)
	if asked := eval[int](tab, "window.asked + window.timers"); asked != 0 {
		tab.Errorf("it asks while nobody looks, %d times", asked)
	}
	r.Run("trending")
	tab.do("look(false)")
	tab.until("document.getElementById('main').innerText.includes('4 of 9,500')")
	if asked := eval[int](tab, "window.asked"); asked != 1 {
		tab.Errorf("it has asked %d times", asked)
	}
	tab.quiet()
}

// updates waits for the page to show a run that was made after it had been loaded.
// The focus, open details and the scroll position stay.
func updates(tab *tab, r *rig) {
	tab.open(r.url + "/")
	tab.do("document.getElementById('jobs').open = true; document.getElementById('region-DE').focus(); window.scrollTo(0, 700); window.kept = 'the same document'")
	before := eval[int](tab, "window.scrollY")
	r.Run("trending")
	tab.until("!document.getElementById('main').innerText.includes('251 of 360') && document.getElementById('main').innerText.includes('259 of 360')")
	if eval[string](tab, "window.kept") != "the same document" {
		tab.Error("it was loaded anew")
	}
	if id := eval[string](tab, "document.activeElement.id"); id != "region-DE" {
		tab.Errorf("the focus is on %q", id)
	}
	if !eval[bool](tab, "document.getElementById('jobs').open") {
		tab.Error("what was open was closed")
	}
	if after := eval[int](tab, "window.scrollY"); after != before {
		tab.Errorf("it has scrolled from %d to %d", before, after)
	}
	tab.quiet()
}

// goesStale waits for the page to say that its server is gone, and then that it is back.
func goesStale(tab *tab, r *rig) {
	front := httptest.NewServer(r.server)
	tab.open(front.URL + "/")
	tab.shows("This page updates itself")
	front.CloseClientConnections()
	front.Close()
	tab.until("document.getElementById('live').innerText.startsWith('Not up to date: the server has not answered since ')")
	listener, err := (&net.ListenConfig{}).Listen(tab.ctx, "tcp", front.Listener.Addr().String())
	tab.must(err)
	again := httptest.NewUnstartedServer(r.server)
	tab.must(again.Listener.Close())
	again.Listener = listener
	again.Start()
	defer again.Close()
	tab.do("document.dispatchEvent(new Event('visibilitychange'))")
	tab.until("document.getElementById('live').innerText === 'This page updates itself.'")
}

// finds types what it looks for.
func finds(tab *tab, r *rig) {
	tab.open(r.url + "/")
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
		{"home-dark", "/?by=method", 1280, "dark"},
		{"home-phone", "/", 375, "light"},
		{"home-tablet", "/", 768, "dark"},
		{"regions-phone", "/regions", 375, "light"},
		{"regions", "/regions", 1280, "light"},
		{"runs", "/runs", 1280, "light"},
		{"run", "/runs/49", 1280, "light"},
		{"history", "/history?pool=youtube%2Funits&range=7d", 1280, "light"},
		{"history-day", "/history?range=24h", 375, "dark"},
		{"search", "/search?q=the", 1280, "light"},
		{"chart", "/regions/DE?category=10", 1280, "dark"},
	} {
		tab.size(p.width, 800)
		_, err := chromedp.Call(tab.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: p.scheme}},
		})
		tab.must(err)
		tab.open(r.url + p.path)
		whole, err := chromedp.Run(tab.ctx, chromedp.FullScreenshot(100))
		tab.must(err)
		tab.must(os.WriteFile(filepath.Join(to, p.name+".png"), whole, 0o644))
		if p.name == "home" && os.Getenv("UPDATE") != "" {
			tab.must(os.WriteFile("../../testdata/dashboard.png", first(tab, whole, 1040), 0o644))
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

// tab is a window of the browser, with what its pages complained of.
type tab struct {
	*testing.T
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

// loading is how long a page may take for anything; it updates itself every 15s.
const loading = 90 * time.Second

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, loading)
	t.Cleanup(cancel)
	tab := &tab{T: t, ctx: ctx}
	tab.must(chromedp.Listen(ctx, tab.heard))
	return tab
}

// heard keeps what a page complains of: errors, and what its policy has forbidden.
func (t *tab) heard(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		t.bad = append(t.bad, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		t.bad = append(t.bad, fmt.Sprintf("it writes to the console: %s", e.Type))
	case *runtime.EventExceptionThrown:
		t.bad = append(t.bad, e.ExceptionDetails.Text)
	}
}

// quiet fails if a page has complained of anything.
func (t *tab) quiet() {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.bad {
		t.Error(b)
	}
}

func (t *tab) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *tab) open(url string) {
	t.Helper()
	t.must(chromedp.Do(t.ctx, chromedp.Navigate(url)))
}

func (t *tab) size(width, height int64) {
	t.Helper()
	t.must(chromedp.Do(t.ctx, chromedp.EmulateViewport(width, height)))
}

// shows fails unless a page has all of these texts.
func (t *tab) shows(want ...string) {
	t.Helper()
	text, err := chromedp.Run(t.ctx, chromedp.Text(chromedp.CSS("body")))
	t.must(err)
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not show %q", w)
		}
	}
}

func (t *tab) do(script string) {
	t.Helper()
	t.must(chromedp.Do(t.ctx, chromedp.Evaluate[chromedp.Void](script+"; undefined")))
}

// until waits for a condition, looking whenever the page changes.
func (t *tab) until(condition string) {
	t.Helper()
	_, err := chromedp.Run(t.ctx, chromedp.Evaluate[bool](`new Promise((done) => {
		const look = () => { if (`+condition+`) done(true) };
		new MutationObserver(look).observe(document.documentElement, { childList: true, subtree: true, characterData: true, attributes: true });
		look();
	})`, chromedp.EvalAwaitPromise))
	t.must(err)
}

// eval is the value of an expression.
func eval[T any](t *tab, expression string) T {
	t.Helper()
	value, err := chromedp.Run(t.ctx, chromedp.Evaluate[T](expression))
	t.must(err)
	return value
}
