package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// chart is the data of the template chart.html.
type chart struct {
	Page
	Name       string
	Feed       *region
	Categories []region // the charts of the region
	Entries    []entry
	CSV        string
	Problem    string
}

// entry is a place in a chart.
type entry struct {
	Rank                int
	Title, Channel, URL string
	Published           moment
}

// Region serves the chart of a region: /regions/{region}?category=.
func (b *Board) Region(w http.ResponseWriter, r *http.Request) {
	name, category := view.Plain(strings.ToUpper(r.PathValue("region"))), ingest.Category(view.Plain(r.URL.Query().Get("category")))
	src := b.sources()
	s := b.read(r.Context(), &src)
	p := &chart{Page: s.judged("Chart of "+chartName(name, category), "/regions"), Name: chartName(name, category)}
	for _, f := range s.regions() {
		if f.Region != name || f.Job != "" {
			continue
		}
		p.Categories = append(p.Categories, f)
		if f.Category == category {
			p.Feed = &f
		}
	}
	if p.Feed == nil && s.Unread == nil {
		b.Problem(w, r, http.StatusNotFound, "No job fetches a chart of "+p.Name+", and none was fetched")
		return
	}
	err := b.facts.Within(r.Context(), func(ctx context.Context) error { return p.load(ctx, s, src.Catalog, name, category) })
	switch {
	case errors.Is(err, catalog.ErrNotFound):
		p.Problem = "The chart was never fetched completely. It is shown once all of its pages are fetched"
	case err != nil:
		b.log.Warn("show a chart", "region", name, "error", err)
		p.Problem = "The catalog cannot be read now. To look for damage: ingestor doctor"
	}
	if p.Entries != nil {
		p.CSV = "/csv/chart?" + url.Values{"region": {name}, "category": {category}}.Encode()
	}
	b.show(w, r, http.StatusOK, "chart", p)
}

// charts reads charts.
type charts interface {
	Chart(ctx context.Context, region, category string) (catalog.Chart, error)
}

// load reads the chart from the catalog.
func (p *chart) load(ctx context.Context, s *state, c charts, region, category string) error {
	all, err := c.Chart(ctx, region, category)
	if err != nil {
		return err
	}
	for _, e := range all.Entries {
		p.Entries = append(p.Entries, entry{e.Rank, view.Plain(e.Video.Title), view.Plain(e.Video.ChannelTitle), view.VideoURL(e.Video.ID), s.Moment(e.Video.PublishedAt)})
	}
	return nil
}

// Problem serves an error page with this status. The text is a sentence without its full
// stop.
func (b *Board) Problem(w http.ResponseWriter, r *http.Request, status int, text string) {
	s := b.blank()
	b.show(w, r, status, "problem", &struct {
		Page
		Says string
	}{s.page(http.StatusText(status), "", false), view.Plain(text)})
}
