package web

import "github.com/headroom-quota/headroom/internal/dashboard"

// pages are those for people. They answer in HTML, whatever fails below them.
func (s *Server) pages() *dashboard.Board {
	return dashboard.New(func() dashboard.Sources {
		src := s.from()
		return dashboard.Sources{Ledger: src.Ledger, Catalog: src.Catalog, Runner: src.Runner, Jobs: src.Jobs}
	}, &dashboard.Options{Clock: s.clock, Log: s.log, MaxAge: s.maxAge, Timeout: s.timeouts.Query})
}
