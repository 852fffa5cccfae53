package web

// Patterns are those of the table.
func (s *Server) Patterns() (all []string) {
	for _, r := range s.table() {
		all = append(all, r.pattern)
	}
	return all
}
