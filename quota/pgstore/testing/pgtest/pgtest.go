// Package pgtest starts real PostgreSQL servers for tests, on loopback, and ends them by
// their process id. They end with the test process, also if it is killed.
package pgtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Fast makes a server lose data with the machine. It keeps its data when it is killed.
var Fast = []string{"fsync=off", "full_page_writes=off"}

// Start starts a server of the test's own. Each setting is "name=value". Without [Fast] it
// writes to disk as in production.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Open(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// shared is the server of a test binary. It ends with the process.
var shared = sync.OnceValues(func() (*Server, error) { return Open(Fast...) })

// Shared returns the URL of an empty database on the server that the tests of a binary share.
// The database is dropped at the end of the test.
func Shared(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.Database(t)
}

// Prepared is a database that the tests of a binary begin with. To copy it is faster than to make
// its tables.
type Prepared struct {
	prepare func(url string) error
	once    sync.Once
	name    string
	err     error
}

// Prepare returns a database that a function prepares at its first use. The function must close its
// connections.
func Prepare(prepare func(url string) error) *Prepared { return &Prepared{prepare: prepare} }

// Shared is [Shared], of a copy of the prepared database.
func (p *Prepared) Shared(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	p.once.Do(func() {
		p.name = nextName()
		if p.err = s.Exec("CREATE DATABASE " + p.name); p.err == nil {
			p.err = p.prepare(s.URL(p.name))
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return s.database(t, " TEMPLATE "+p.name)
}

var databases atomic.Int64

func nextName() string { return fmt.Sprintf("test%d", databases.Add(1)) }

// Database returns the URL of an empty database, which is dropped at the end of the test.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.database(t, "")
}

func (s *Server) database(t testing.TB, like string) string {
	t.Helper()
	name := nextName()
	create := "CREATE DATABASE " + name + like
	if s.Exec(create+" STRATEGY FILE_COPY") != nil { // it writes half as much; version 14 does not know it
		if err := s.Exec(create); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = s.Exec("DROP DATABASE " + name + " WITH (FORCE)") }) // the server may be gone
	return s.URL(name)
}

// Role makes a role without rights on the server of [Shared], until the end of the test.
func Role(t testing.TB, name string) {
	t.Helper()
	s, err := shared()
	if err == nil {
		err = s.Exec("CREATE ROLE " + name + " LOGIN")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Exec("DROP ROLE " + name) })
}

// Exec executes a statement as the superuser in the database postgres.
func (s *Server) Exec(sql string, args ...any) error {
	return s.with(context.Background(), func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return err
	})
}

func (s *Server) with(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	return do(ctx, c)
}
