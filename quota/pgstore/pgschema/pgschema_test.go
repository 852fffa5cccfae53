package pgschema_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// TestOneProcessMakesASchema: programs that start at the same time wait for the one that makes
// the tables, and then see them. The server remembers for a session that a table did not exist.
func TestOneProcessMakesASchema(t *testing.T) {
	t.Parallel()
	s := &pgschema.Schema{Name: "made_once", Steps: []pgschema.Step{{SQL: "CREATE TABLE made_once.one (n integer)"}, {SQL: "CREATE TABLE made_once.two (n integer)"}}}
	url := pgtest.Shared(t)
	var conns []*pgx.Conn
	for range 8 {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		if at, err := s.Version(t.Context(), c); err != nil || at.Version != 0 { // remembers that it is missing
			t.Fatal(at, err)
		}
		conns = append(conns, c)
	}
	for round := range 5 {
		var all sync.WaitGroup
		for _, c := range conns {
			all.Go(func() {
				if err := s.Open(t.Context(), c); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		if _, err := conns[0].Exec(t.Context(), "DROP SCHEMA made_once CASCADE"); err != nil {
			t.Fatal(err)
		}
	}
}
