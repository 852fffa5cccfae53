package web

// Patterns are those of the table.
func (s *Server) Patterns() (all []string) {
	for _, r := range s.table() {
		all = append(all, r.pattern)
	}
	return all
}

// Current returns the sources.
func (s *Server) Current() *Sources { return s.current() }
