// Package pages serves HTML pages that show people the quota and the runs. The server
// renders them. They work without JavaScript and load nothing from other hosts.
//
// A page is made in three steps. It reads the ledger and the catalog once (state.go). Each
// section turns a part of that into words and numbers (pool.go, region.go, run.go). Templates turn these into HTML and escape all text, titles of videos too.
//
// A page is served whatever fails below it, and says what could not be read.
package pages

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Options are the settings of [New]. All are required.
type Options struct {
	Clock quota.Clock
	Log   *slog.Logger
	Facts *verdict.Reader

	// Searching runs a search when it is the turn of a request. It returns an error for people.
	Searching func(r *http.Request, search func(context.Context) error) error
	// Operated reports whether people may act on the pages.
	Operated func() bool
}

// Board serves the pages.
type Board struct {
	o        Options
	sources  func() view.Sources
	forms    forms
	palettes sync.Map // see state
}

// New returns a board that calls sources once for each page and shows them.
func New(sources func() view.Sources, o *Options) *Board {
	return &Board{o: *o, sources: sources}
}

// Home serves the first page: /, or /?by=method to group spend by method.
func (b *Board) Home(w http.ResponseWriter, r *http.Request) {
	by := byJob
	if r.URL.Query().Get("by") == string(byMethod) {
		by = byMethod
	}
	s := b.read(r.Context())
	v := s.Verdict()
	p := &home{
		Page: s.page("Quota", "/", true), Verdict: v, History: "/history", By: by,
		Unused: s.unused(), Regions: s.regionsInShort(), Runs: s.runsInShort(), Limits: s.limitsToSet(), Jobs: s.outlooks(),
	}
	p.Pools, p.Folded = s.poolSections(by, v)
	p.Tab, p.Icon = v.Tab, v.Level
	if v.Pool != nil {
		p.Who, p.History = s.who(v.Pool, v.Decides), p.History+"?"+url.Values{"pool": {pageOf(v.Pool.Pool)}}.Encode()
	}
	b.show(w, r, http.StatusOK, "home", p)
}

// home is the data of the template home.html.
type home struct {
	Page
	Verdict *verdict.Verdict
	Who     *who   // of the pool of the verdict, or nil
	History string // address of that of the pool
	By      grouping
	Jobs    []jobRow
	Pools   []poolSection
	Folded  []poolSection
	Unused  []string
	Regions sentence
	Runs    sentence
	Limits  []action
}

type partKey struct{}

// Whole returns a context for the request of a page, and what tells afterwards whether the
// page could read all that it shows.
func Whole(ctx context.Context) (context.Context, func() bool) {
	part := new(atomic.Bool)
	return context.WithValue(ctx, partKey{}, part), func() bool { return !part.Load() }
}

// partly says that the page of a request says what it could not read.
func partly(ctx context.Context) {
	if part, watched := ctx.Value(partKey{}).(*atomic.Bool); watched {
		part.Store(true)
	}
}

// Pages speak with the words of the verdict.
type (
	level    = view.Level
	moment   = verdict.Moment
	sentence = verdict.Sentence
	note     = verdict.Note
	job      = verdict.Job
)

const (
	good = view.Good
	warn = view.Warn
	bad  = view.Bad
)

var (
	say   = verdict.Say
	span  = verdict.Span
	count = verdict.Count
	list  = verdict.List

	later = verdict.Later

	period    = verdict.Period
	chartName = verdict.ChartName
	workName  = verdict.WorkName
)
