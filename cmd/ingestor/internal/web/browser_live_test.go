//go:build browser

package web_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// legible looks at the text of charts as it is drawn: its size, and whether labels run together.
func legible(tab *tab, r *rig) {
	for _, width := range []int64{1280, 768, 375} {
		tab.size(width)
		for _, path := range []string{"/", "/runs", "/history?range=7d", "/history?range=24h", "/history?range=30d"} {
			tab.open(r.url + path)
			tab.do("document.querySelectorAll('details').forEach((d) => { d.open = true })")
			const texts = "[...document.querySelectorAll('svg.chart text')].filter((e) => e.getBoundingClientRect().width)"
			if size := eval[float64](tab, "Math.min(...("+texts+").map((e) => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a))"); size < 9.5 {
				tab.Errorf("%s, %d wide: text of %.1f px", path, width, size)
			}
			if both := eval[string](tab, "("+texts+`).flatMap((a, i, all) => all.slice(i + 1).filter((b) => {
				const r = a.getBoundingClientRect(), q = b.getBoundingClientRect();
				return r.left < q.right && q.left < r.right && r.top + 3 < q.bottom && q.top + 3 < r.bottom;
			}).map((b) => a.textContent + " and " + b.textContent)).join(", ")`); both != "" {
				tab.Errorf("%s, %d wide: %s run together", path, width, both)
			}
		}
		tab.open(r.url + "/")
		if kind := eval[string](tab, "document.querySelector('.ranked .kind').innerText"); kind != "job" {
			tab.Errorf("%d wide: the kind of a spender is %q", width, kind)
		}
	}
	tab.quiet()
}

// rests looks how often a page asks while it is hidden: once a minute, for the tab. When it is
// looked at again, it is up to date at once.
func rests(tab *tab, r *rig) {
	tab.open(r.url + "/")
	tab.do(`window.asked = 0; window.waits = [];
		{ const { fetch } = window;
		window.fetch = (...of) => { window.asked++; return fetch(...of) };
		window.setTimeout = (next, wait) => { window.waits.push(wait); window.next = next; return 0 };
		window.look = (hidden) => {
			Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
			document.dispatchEvent(new Event("visibilitychange"));
		};
		look(true) }`)
	if asked := eval[string](tab, "window.asked + ' ' + window.waits"); asked != "0 60000" {
		tab.Errorf("while nobody looks it has asked, and waits %s", asked)
	}
	units := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	r.Must(r.Ledger.Block(tab.ctx, units, noon.Add(6*time.Hour), "no"))
	tab.do("window.next()")
	tab.until("document.title.startsWith('Blocked until') && document.querySelector('link[rel=icon]').href.endsWith('/static/icon-bad.svg') && window.waits.length == 2")
	if asked := eval[string](tab, "window.asked + ' ' + window.waits"); asked != "1 60000,60000" {
		tab.Errorf("while nobody looks it has asked, and waits %s", asked)
	}
	_, err := r.Ledger.Admin().Adjust(tab.ctx, units, 4, "seen in the console")
	r.Must(err)
	tab.do("look(false)")
	tab.until("document.getElementById('main').innerText.includes('4 of 9,500') && window.waits.length == 3")
	if asked := eval[string](tab, "window.asked + ' ' + window.waits"); asked != "2 60000,60000,15000" {
		tab.Errorf("it has asked, and waits %s", asked)
	}
	tab.quiet()
}

// goesStale waits for the page to say that its server is gone, and then that it is back: in
// the place of the verdict, in the tab, and above everything else.
func goesStale(tab *tab, r *rig) {
	front := httptest.NewServer(r.server)
	tab.size(1280)
	tab.open(front.URL + "/")
	tab.shows("This page updates itself")
	is := func(want string) {
		tab.Helper()
		tab.until("document.getElementById('stale')?.innerText.endsWith('" + want + "') && document.querySelector('.word').innerText.startsWith('Not up to date since ') && " +
			"document.title.startsWith('Not up to date since ')")
		if top, card := eval[float64](tab, "document.getElementById('stale').getBoundingClientRect().bottom"), eval[float64](tab, "document.querySelector('.verdict').getBoundingClientRect().top"); top > card {
			tab.Errorf("the alert ends at %.0f, and the card begins at %.0f", top, card)
		}
		if icon := eval[string](tab, "document.querySelector('link[rel=icon]').href"); !strings.HasPrefix(icon, "data:image/svg+xml,%3Csvg") {
			tab.Errorf("the icon is %s", icon)
		}
		// the policy allows the icon
		tab.do("window.seen = 0; { const i = new Image(); i.onload = () => { document.body.dataset.seen = i.width }; i.src = document.querySelector('link[rel=icon]').href }")
		tab.until("document.body.dataset.seen")
	}
	front.CloseClientConnections()
	front.Close()
	is("the server does not answer.")
	listener, err := (&net.ListenConfig{}).Listen(tab.ctx, "tcp", front.Listener.Addr().String())
	tab.must(err)
	var status atomic.Int64
	again := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if n := int(status.Load()); n != 0 {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(n)
			return
		}
		r.server.ServeHTTP(w, q)
	}))
	tab.must(again.Listener.Close())
	again.Listener = listener
	again.Start()
	defer again.Close()
	const look = "document.dispatchEvent(new Event('visibilitychange'))"
	back := "!document.getElementById('stale') && document.getElementById('live').innerText === 'This page updates itself.' && !document.title.startsWith('Not') && " +
		"document.querySelector('link[rel=icon]').href.endsWith('/static/icon-warn.svg') && document.querySelector('.word').innerText.includes('Available')"
	tab.do(look)
	tab.until(back)
	status.Store(http.StatusServiceUnavailable)
	tab.do(look)
	is("the server answers with an error.")
	status.Store(http.StatusTooManyRequests)
	tab.do("window.waits = []; window.setTimeout = (next, wait) => { window.waits.push(wait); return 0 }; " + look)
	tab.until("/too many requests; this page asks again at \\d\\d:\\d\\d\\.$/.test(document.getElementById('stale')?.innerText) && window.waits.length")
	if wait := eval[int](tab, "window.waits[0]"); wait != 120000 {
		tab.Errorf("it waits %d ms", wait)
	}
	status.Store(0)
	tab.do(look)
	tab.until(back)
}
