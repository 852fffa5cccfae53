// Package pages shows people how the quota stands and what runs did: pages of
// HTML that are made on the server, work without JavaScript, and load nothing from
// anywhere else.
//
// A page is made in three steps. What ledger and catalog say is read once (state.go);
// each section turns a part of it into words and numbers (verdict.go, pool.go,
// region.go, run.go); templates put them into HTML, which escapes all of it. What an
// upstream calls its videos is text like any other.
//
// A page comes whatever fails below it: what could not be read is said in its place.
package pages

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Options are what [New] can be told; all but Timeout are needed.
type Options struct {
	Clock  quota.Clock
	Log    *slog.Logger
	MaxAge time.Duration // a chart that is older is stale

	// Timeout is how long ledger and catalog are waited for, each; zero is 3s.
	Timeout time.Duration
}

// Board makes the pages.
type Board struct {
	from    func() view.Sources
	clock   quota.Clock
	log     *slog.Logger
	maxAge  time.Duration
	timeout time.Duration
}

// New returns pages that tell of what from returns, which is asked once for each.
func New(from func() view.Sources, o *Options) *Board {
	b := &Board{from: from, clock: o.Clock, log: o.Log, maxAge: o.MaxAge, timeout: o.Timeout}
	if b.timeout == 0 {
		b.timeout = 3 * time.Second
	}
	return b
}

// Home answers with how things stand: /, and /?by=method.
func (b *Board) Home(w http.ResponseWriter, r *http.Request) {
	by := byJob
	if r.URL.Query().Get("by") == string(byMethod) {
		by = byMethod
	}
	src := b.from()
	s := b.read(r.Context(), &src)
	b.show(w, r, http.StatusOK, "home", &home{
		Page:    s.page("How the quota stands", true),
		Verdict: s.verdict(),
		Notes:   s.notes(),
		By:      by,
		Pools:   s.poolSections(by),
		Unused:  s.unused(),
		Regions: s.regionTable(s.regions()),
		Runs:    s.timeline(),
	})
}

// home is what the template of that name shows.
type home struct {
	Page
	Verdict verdict
	Notes   []note
	By      grouping
	Pools   []poolSection
	Unused  []string
	Regions *table
	Runs    timeline
}

// within bounds how long a page waits for what it tells of.
func (b *Board) within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return ask(ctx)
}
