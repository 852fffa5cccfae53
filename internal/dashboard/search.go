package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
)

// found is what a search has found.
type found struct {
	Page
	Query   string
	Region  string
	Regions []string
	Hits    []hit
	More    string // the address of what comes next
	Problem string
	Asked   bool
}

// hit is a video with what was looked for marked.
type hit struct {
	Title, Channel, Snippet catalog.Marked
	URL                     string
	Published               moment
}

// Search answers with what was found: /search?q=&region=&cursor=.
func (b *Board) Search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s := &state{now: b.clock.Now()}
	p := &found{Page: s.page("Search", false), Region: strings.ToUpper(q.Get("region"))}
	p.Query, p.Searching = q.Get("q"), true
	p.Asked = strings.TrimSpace(p.Query) != ""
	src := b.from()
	for _, j := range src.Jobs {
		for _, region := range j.Regions {
			p.Regions = insert(p.Regions, region)
		}
	}
	if p.Region != "" {
		p.Regions = insert(p.Regions, p.Region)
	}
	if p.Asked {
		err := b.within(r.Context(), func(ctx context.Context) error { return p.find(ctx, s, src.Catalog, q.Get("cursor")) })
		switch {
		case errors.Is(err, catalog.ErrBadCursor):
			p.Problem = "This page of the search is none of ours: search from the beginning"
		case err != nil:
			b.log.Warn("search", "error", err)
			p.Problem = "The catalog cannot be read just now; `ingestor doctor` looks for damage"
		}
	}
	b.show(w, r, http.StatusOK, "search", p)
}

// searcher finds videos.
type searcher interface {
	Search(ctx context.Context, q catalog.Query) (catalog.Results, error)
}

// find asks the catalog.
func (p *found) find(ctx context.Context, s *state, c searcher, cursor string) error {
	results, err := c.Search(ctx, catalog.Query{Text: p.Query, Region: p.Region, Cursor: cursor})
	if err != nil {
		return err
	}
	for _, h := range results.Hits {
		p.Hits = append(p.Hits, hit{h.Title, h.Channel, h.Snippet, view.VideoURL(h.Video.ID), s.at(h.Video.PublishedAt)})
	}
	if results.Cursor != "" {
		p.More = "/search?" + url.Values{"q": {p.Query}, "region": {p.Region}, "cursor": {results.Cursor}}.Encode()
	}
	return nil
}

// insert puts a name where it belongs, once.
func insert(names []string, name string) []string {
	i := 0
	for i < len(names) && names[i] < name {
		i++
	}
	if i < len(names) && names[i] == name {
		return names
	}
	return append(names[:i:i], append([]string{name}, names[i:]...)...)
}
