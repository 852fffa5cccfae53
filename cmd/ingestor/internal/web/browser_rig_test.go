//go:build browser

package web_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a window of the browser, with what its pages complained of.
type tab struct {
	*testing.T
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

// loading is how long a tab may take for anything, with reduced counts; it updates itself every 15s.
const loading = 3 * time.Minute

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Duration(full(1, 10))*loading)
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

func (t *tab) size(width int64) {
	t.Helper()
	t.must(chromedp.Do(t.ctx, chromedp.EmulateViewport(width, 800)))
}

// scheme sets the colour scheme that a reader prefers.
func (t *tab) scheme(name string) {
	t.Helper()
	_, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	t.must(err)
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
