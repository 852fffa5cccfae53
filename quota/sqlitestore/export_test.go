package sqlitestore

import "testing"

// PageBytes is what the pages of pools take. The rows of the table reservations
// have a bound of their own: they are kept for 36 days.
func PageBytes(t testing.TB, s *Store) int64 {
	n, err := s.file.Writer.Number("SELECT sum(length(page)) FROM pools")
	if err != nil {
		t.Fatal(err)
	}
	return n
}
