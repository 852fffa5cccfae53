package peers

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

//go:embed sql/schema.sql
var schema string

//go:embed sql/fixed.sql
var fixedSQL string

//go:embed sql/gcra.sql
var gcraSQL string

// files have the settings of a ledger: accepted requests are on disk.
var files = &sqlitefile.Kind{Name: "peers", Spared: "what is accepted"}

// SQLite keeps limiters in a SQLite file.
type SQLite struct {
	db    *sql.DB
	clock quota.Clock
}

// OpenSQLite makes a new file at path.
func OpenSQLite(ctx context.Context, path string, clock quota.Clock) (*SQLite, error) {
	path, err := files.Path(path)
	if err != nil {
		return nil, err
	}
	c, err := files.Connector(files.DSN(path, sqlitefile.Write))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(1) // one writer at a time
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return &SQLite{db, clock}, nil
}

// Close closes the file.
func (s *SQLite) Close() error { return s.db.Close() }

// Fixed implements [Home].
func (s *SQLite) Fixed(name string, r boundary.Rate) boundary.Limiter {
	return func(ctx context.Context) (time.Time, bool, error) {
		now := s.clock.Now()
		return s.changed(ctx, now, fixedSQL, name, windowOf(now, r), r.Limit)
	}
}

// GCRA implements [Home].
func (s *SQLite) GCRA(name string, r boundary.Rate) boundary.Limiter {
	every := emission(r).Microseconds()
	return func(ctx context.Context) (time.Time, bool, error) {
		now := s.clock.Now()
		return s.changed(ctx, now, gcraSQL, name, now.UnixMicro(), every, every*int64(r.Limit))
	}
}

// changed reports whether a row changed, which means accepted.
func (s *SQLite) changed(ctx context.Context, now time.Time, query string, args ...any) (time.Time, bool, error) {
	done, err := s.db.ExecContext(ctx, query, args...)
	if err != nil {
		return time.Time{}, false, err
	}
	rows, err := done.RowsAffected()
	return now, rows > 0, err
}
