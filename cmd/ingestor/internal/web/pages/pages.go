// Package pages serves HTML pages that show people the quota and the runs. The server
// renders them. They work without JavaScript and load nothing from other hosts.
//
// A page is made in three steps. It reads the ledger and the catalog once (state.go). Each
// section turns a part of that into words and numbers (verdict.go, pool.go, region.go,
// run.go). Templates turn these into HTML and escape all text, titles of videos too.
//
// A page is served whatever fails below it, and says what could not be read.
package pages

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Options are the settings of [New]. Only Timeout may be zero.
type Options struct {
	Clock  quota.Clock
	Log    *slog.Logger
	MaxAge time.Duration // an older chart is stale

	// Timeout bounds the wait for the ledger, and that for the catalog; zero is 3s.
	Timeout time.Duration

	// Searching runs a search when it is its turn. It returns an error for people.
	Searching func(ctx context.Context, search func(context.Context) error) error
	// Operated reports whether people may act on the pages; nil says that they may not.
	Operated func() bool
	// Keep sends what make returns, or what is kept of it; nil keeps nothing. An answer that
	// is not whole says what could not be read.
	Keep func(w http.ResponseWriter, r *http.Request, make func(*http.Request) (a *kept.Answer, whole bool))
}

// Board serves the pages.
type Board struct {
	sources func() view.Sources
	clock   quota.Clock
	log     *slog.Logger
	maxAge  time.Duration
	timeout time.Duration

	searching func(context.Context, func(context.Context) error) error
	operated  func() bool
	keep      func(http.ResponseWriter, *http.Request, func(*http.Request) (*kept.Answer, bool))
	forms     forms
	palettes  sync.Map // see state
}

// New returns a board that calls sources once for each page and shows them.
func New(sources func() view.Sources, o *Options) *Board {
	b := &Board{sources: sources, clock: o.Clock, log: o.Log, maxAge: o.MaxAge, timeout: o.Timeout, searching: o.Searching, operated: o.Operated, keep: o.Keep}
	if b.timeout == 0 {
		b.timeout = 3 * time.Second
	}
	if b.operated == nil {
		b.operated = func() bool { return false }
	}
	if b.keep == nil {
		b.keep = func(w http.ResponseWriter, r *http.Request, make func(*http.Request) (*kept.Answer, bool)) {
			a, _ := make(r)
			a.Send(w, r)
		}
	}
	if b.searching == nil {
		b.searching = func(ctx context.Context, search func(context.Context) error) error { return search(ctx) }
	}
	return b
}

// Home serves the first page: /, or /?by=method to group spend by method.
func (b *Board) Home(w http.ResponseWriter, r *http.Request) { b.keep(w, r, b.home) }

func (b *Board) home(r *http.Request) (a *kept.Answer, whole bool) {
	by := byJob
	if r.URL.Query().Get("by") == string(byMethod) {
		by = byMethod
	}
	src := b.sources()
	s := b.read(r.Context(), &src)
	v := s.verdict()
	p := &home{
		Page: s.page("Quota", "/", true), Verdict: v, Notes: s.notes(&v), By: by,
		Unused: s.unused(), Regions: s.regionsInShort(), Runs: s.runsInShort(), Limits: s.limitsToSet(),
	}
	p.Pools, p.Folded = s.poolSections(by, &v)
	p.Tab, p.Icon = v.Tab, v.Level
	return rendered("home", p), s.outage == nil && s.unread == nil
}

// home is the data of the template home.html.
type home struct {
	Page
	Verdict verdict
	Notes   []note
	By      grouping
	Pools   []poolSection
	Folded  []poolSection
	Unused  []string
	Regions sentence
	Runs    sentence
	Limits  []action
}

// withTimeout runs ask with the timeout of a page.
func (b *Board) withTimeout(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return ask(ctx)
}
