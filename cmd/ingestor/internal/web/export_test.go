package web

import "net/http"

// Patterns are those of the table.
func (s *Server) Patterns() (all []string) {
	for _, r := range s.table() {
		all = append(all, r.pattern)
	}
	return all
}

// Mux returns a multiplexer of the table.
func (s *Server) Mux() *http.ServeMux { return s.mux() }

// Current returns the sources.
func (s *Server) Current() *Sources { return s.current() }

// Reserving returns how many calls wait for their units.
func (s *Server) Reserving() int64 { return mostReserving - s.reserving.Free() }

// Waiting returns how many searches wait for their turn.
func (s *Server) Waiting() int {
	s.searches.mu.Lock()
	defer s.searches.mu.Unlock()
	return s.searches.waiting
}
