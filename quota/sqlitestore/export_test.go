package sqlitestore

import (
	"context"
	"testing"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// PageBytes is what the pages of pools take. The rows of the table reservations
// have a bound of their own: they are kept for 36 days.
func PageBytes(t testing.TB, s *Store) int64 {
	n, err := sqlitefile.Number(context.Background(), s.file.writer.conn, "SELECT sum(length(page)) FROM pools")
	if err != nil {
		t.Fatal(err)
	}
	return n
}
