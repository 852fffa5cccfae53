package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
)

// chart is the chart of a region.
type chart struct {
	Page
	Name       string
	Feed       *region
	Categories []region // of the same region
	Entries    []entry
	Problem    string
}

// entry is a place in a chart.
type entry struct {
	Rank                int
	Title, Channel, URL string
	Published           moment
}

// Region answers with the chart of a region: /regions/{region}?category=.
func (b *Board) Region(w http.ResponseWriter, r *http.Request) {
	name, category := strings.ToUpper(r.PathValue("region")), ingest.Category(r.URL.Query().Get("category"))
	src := b.from()
	s := b.read(r.Context(), &src)
	p := &chart{Page: s.page("Chart of "+view.FeedName(name, category), true), Name: view.FeedName(name, category)}
	for _, f := range s.regions() {
		if f.Region != name || f.Job != "" {
			continue
		}
		p.Categories = append(p.Categories, f)
		if f.Category == category {
			p.Feed = &f
		}
	}
	if p.Feed == nil && s.unread == nil {
		b.missing(w, r, "No job fetches a chart of "+p.Name+", and none was fetched")
		return
	}
	err := b.within(r.Context(), func(ctx context.Context) error { return p.list(ctx, s, src.Catalog, name, category) })
	switch {
	case errors.Is(err, catalog.ErrNotFound):
		p.Problem = "It was never fetched completely; a chart is shown when all of its pages are there"
	case err != nil:
		b.log.Warn("show a chart", "region", name, "error", err)
		p.Problem = "The catalog cannot be read just now; `ingestor doctor` looks for damage"
	}
	b.show(w, r, http.StatusOK, "chart", p)
}

// list asks the catalog.
func (p *chart) list(ctx context.Context, s *state, c *catalog.Catalog, region, category string) error {
	all, err := c.Chart(ctx, region, category)
	if err != nil {
		return err
	}
	for _, e := range all.Entries {
		p.Entries = append(p.Entries, entry{e.Rank, e.Video.Title, e.Video.ChannelTitle, view.VideoURL(e.Video.ID), s.at(e.Video.PublishedAt)})
	}
	return nil
}

// missing answers that there is no such page.
func (b *Board) missing(w http.ResponseWriter, r *http.Request, says string) {
	b.Problem(w, r, http.StatusNotFound, says)
}

// Problem answers with an error and what it says, a sentence without its full stop.
func (b *Board) Problem(w http.ResponseWriter, r *http.Request, status int, says string) {
	s := &state{now: b.clock.Now()}
	b.show(w, r, status, "problem", &struct {
		Page
		Says string
	}{s.page(http.StatusText(status), false), says})
}
