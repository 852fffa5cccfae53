package web

import (
	"net/http"

	"github.com/headroom-quota/headroom/internal/view"
)

// quota tells how the pools stand.
func (s *Server) quota(r *http.Request) (any, error) {
	all, err := s.from().Ledger.Usage(r.Context(), "", "")
	if err != nil {
		return nil, err
	}
	return struct {
		Pools []view.Pool `json:"pools"`
	}{view.Pools(all)}, nil
}

// regions tells how fresh the charts are.
func (s *Server) regions(r *http.Request) (any, error) {
	src := s.from()
	feeds, err := src.Catalog.Feeds(r.Context())
	if err != nil {
		return nil, err
	}
	return struct {
		Regions []view.Feed `json:"regions"`
	}{view.Feeds(feeds, src.Jobs, s.clock.Now(), s.maxAge)}, nil
}
