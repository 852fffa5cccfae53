package web

import (
	"context"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/pages"
)

// sharing keeps the answers of a page, as [Server.keepPage] does.
func (s *Server) sharing(page http.HandlerFunc) http.Handler {
	return s.sharingIn(func(_ *http.Request, do func() error) error { return do() }, page)
}

// inTurn is sharing for pages that add up what the ledger has of a month. They have bounds and
// a queue as searches have, so that many leave the ledger to others.
func (s *Server) inTurn(page http.HandlerFunc) http.Handler {
	return s.sharingIn(func(r *http.Request, do func() error) error {
		ctx, cancel := context.WithTimeout(r.Context(), s.timeouts.Query)
		defer cancel()
		mine, err := s.histories.take(ctx, s.client(r))
		if err != nil {
			return err
		}
		if !mine {
			s.metrics.RequestRefused(metrics.Histories)
			return problem.Unavailable("too_many_histories", "too many requests for the history are waiting; try again in a moment", time.Second)
		}
		defer s.histories.done()
		return do()
	}, page)
}

func (s *Server) sharingIn(turn func(*http.Request, func() error) error, page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := s.shelfOf(r, true)
		a := p.kept()
		if a == nil {
			err := turn(r, func() (err error) {
				a, err = p.fill(r.Context(), func(ctx context.Context) (*kept.Answer, error) {
					until := s.clock.Now().Add(s.share)
					ctx, whole := pages.Whole(ctx)
					a, err := kept.Capture(page, r.WithContext(ctx))
					if err == nil && whole() {
						a.Until = until
					}
					return a, err
				})
				return err
			})
			if kept.SendOther(w, err) {
				return
			}
			if err != nil {
				s.fail(w, r, err)
				return
			}
		}
		a.Send(w, r)
	})
}
