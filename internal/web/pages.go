package web

import (
	"github.com/headroom-quota/headroom/internal/dashboard"
	"github.com/headroom-quota/headroom/internal/web/view"
)

// pages are those for people. They answer in HTML, whatever fails below them.
func (s *Server) pages() *dashboard.Board {
	return dashboard.New(func() view.Sources { return s.from().Sources }, &dashboard.Options{Clock: s.clock, Log: s.log, MaxAge: s.maxAge, Timeout: s.timeouts.Query})
}
