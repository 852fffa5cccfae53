package pgcatalog

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// idle is how long a transaction may wait for its process.
const idle = "10s"

// tries is how often a transaction is tried that the database breaks off because of another.
const tries = 5

// tx is a transaction that writes.
type tx struct {
	conn
	ctx context.Context
	now time.Time
}

// change runs a transaction that writes. The function read queues what has to be read and
// locked first, and write queues the changes. Both may be called again. A transaction of the
// catalog's own takes two round trips: BEGIN goes with the first, and COMMIT with the second.
// So a process that is stopped in between holds its locks for one round trip of its own.
func (c *Catalog) change(ctx context.Context, read func(*pgx.Batch), write func(*tx, *pgx.Batch) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	if c.tx != nil {
		return c.steps(ctx, c.tx, false, read, write)
	}
	for n := 1; ; n++ {
		err := c.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			err := c.steps(ctx, conn.Conn(), true, read, write)
			if err != nil && !conn.Conn().IsClosed() { // else the pool closes the connection
				soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_, _ = conn.Exec(soon, "ROLLBACK")
			}
			return err
		})
		if n == tries || !excluded(err) {
			return err
		}
	}
}

// excluded reports whether the database broke a transaction off because of another one that
// did the same at the same time.
func excluded(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40P01" || e.Code == "40001" || e.Code == "23505")
}

// steps sends what a transaction reads, and then what it writes. Own says that it is also begun
// and committed.
func (c *Catalog) steps(ctx context.Context, t conn, own bool, read func(*pgx.Batch), write func(*tx, *pgx.Batch) error) error {
	w := &tx{conn: t, ctx: ctx}
	var b, changes pgx.Batch
	if own {
		b.Queue("BEGIN")
	}
	b.Queue(sql("begin"), idle).QueryRow(func(row pgx.Row) error {
		var micros int64
		err := row.Scan(nil, &micros)
		w.now = timeOf(micros)
		return err
	})
	if c.guard.Before != nil {
		c.guard.Before(&b)
	}
	read(&b)
	if err := t.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if c.clock != nil {
		w.now = c.clock.Now().UTC().Truncate(time.Microsecond)
	}
	if err := write(w, &changes); err != nil {
		return err
	}
	if own {
		changes.Queue("COMMIT")
	}
	if changes.Len() == 0 {
		return nil
	}
	return t.SendBatch(ctx, &changes).Close()
}

// nothing is for changes that need to know nothing.
func nothing(*pgx.Batch) {}

// each calls row for every row of a query.
func (c *Catalog) each(ctx context.Context, row func(scan func(dest ...any) error) error, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	rows, err := c.conn().Query(ctx, query, args...)
	if err == nil {
		err = eachRow(rows, row)
	}
	return c.fault("read", err)
}

func eachRow(rows pgx.Rows, row func(scan func(dest ...any) error) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := row(func(dest ...any) error { return scan(rows, dest...) }); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan copies the columns of a row. A *time.Time reads a time of the tables.
func scan(row pgx.Row, dest ...any) error {
	for i, d := range dest {
		if t, ok := d.(*time.Time); ok {
			dest[i] = instant{t}
		}
	}
	return row.Scan(dest...)
}

// instant reads a time of the tables.
type instant struct{ to *time.Time }

// ScanInt64 implements [pgtype.Int64Scanner].
func (i instant) ScanInt64(v pgtype.Int8) error {
	*i.to = timeOf(v.Int64)
	return nil
}

// timeOf returns a time of the tables: microseconds since 1970 UTC, or 0 for the zero time.
func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// micros returns a time as the tables hold it.
func micros(t time.Time) int64 { return sqlitefile.Micros(t) }

// valid returns a text that PostgreSQL can hold.
func valid(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
