package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// found is the data of the template search.html.
type found struct {
	Page
	Found   view.Hits
	Query   string
	Region  string
	Regions []string
	More    string // address of the next page
	Problem string
	Looked  string // how many videos were looked at, if there are more
	Asked   bool
}

// Search serves a page of results: /search?q=&region=&cursor=.
func (b *Board) Search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s := b.blank()
	p := &found{Page: s.page("Search", "/search", false), Region: strings.ToUpper(view.Plain(q.Get("region")))}
	p.Query = view.Plain(q.Get("q"))
	p.Asked = strings.TrimSpace(p.Query) != ""
	p.Regions = view.Regions(nil, s.src.Jobs)
	if i, there := slices.BinarySearch(p.Regions, p.Region); p.Region != "" && !there {
		p.Regions = slices.Insert(p.Regions, i, p.Region)
	}
	if p.Asked {
		err := b.o.Facts.Within(r.Context(), func(ctx context.Context) error {
			return b.o.Searching(r.WithContext(ctx), func(ctx context.Context) error { return p.find(ctx, s, q.Get("cursor")) })
		})
		var told interface{ ForPeople() string }
		switch {
		case errors.Is(err, catalog.ErrBadCursor):
			p.Problem = "The address of this page of results is invalid. Search again from the start"
		case errors.As(err, &told):
			p.Problem = told.ForPeople()
		case err != nil:
			b.o.Log.Warn("search", "error", err)
			p.Problem = "The catalog cannot be read now. To look for damage: ingestor doctor"
		}
	}
	b.show(w, r, http.StatusOK, "search", p)
}

func (p *found) find(ctx context.Context, s *state, cursor string) error {
	results, err := s.src.Catalog.Search(ctx, catalog.Query{Text: p.Query, Region: p.Region, Cursor: cursor})
	if err != nil {
		return err
	}
	if p.Found = view.Found(results); results.Cut {
		p.Looked = view.Number(catalog.MaxRanked)
	}
	if results.Cursor != "" {
		p.More = "/search?" + url.Values{"q": {p.Query}, "region": {p.Region}, "cursor": {results.Cursor}}.Encode()
	}
	return nil
}
