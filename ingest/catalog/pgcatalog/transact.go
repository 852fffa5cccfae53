package pgcatalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// idle is how long a transaction may wait for its process.
const idle = "10s"

// tries is how often a transaction is tried that the database breaks off because of another.
const tries = 5

// home is a [Catalog] as a [catalog.Home].
type home Catalog

var _ catalog.Home = (*home)(nil)

func (h *home) Path() string { return h.name }

// View implements [catalog.Home]. Each query sees the database as it is then.
func (h *home) View(ctx context.Context, do func(catalog.Read) error) error {
	ctx, cancel := context.WithTimeout(ctx, h.wait)
	defer cancel()
	return h.Fault("read", do(reader(ctx, (*Catalog)(h).conn())))
}

func (h *home) Change(ctx context.Context, read func(catalog.Batch), write func(catalog.Tx) error) error {
	return (*Catalog)(h).change(ctx, func(b batch) { read(b) }, func(tx *tx) error { return write(tx.Tx) })
}

func (h *home) Saved(tx catalog.Tx, s catalog.Saved) {
	if h.guard.Saved != nil {
		h.guard.Saved(tx.Batch.(batch).queue, s)
	}
}

// batch is a [catalog.Batch] that sends its statements together.
type batch struct{ queue *pgx.Batch }

func (b batch) Exec(query string, args ...any) { b.queue.Queue(sql(query), held(args)...) }

func (b batch) Count(n *int, query string, args ...any) {
	b.queue.Queue(sql(query), held(args)...).Exec(func(done pgconn.CommandTag) error {
		*n = int(done.RowsAffected())
		return nil
	})
}

func (b batch) Query(row func(catalog.Scan) error, query string, args ...any) {
	b.queue.Queue(sql(query), held(args)...).Query(func(rows pgx.Rows) error { return eachRow(rows, row) })
}

// Bulk is one statement, which takes an array for each column.
func (b batch) Bulk(query string, first []any, rows [][]any) {
	if len(rows) > 0 {
		b.Exec(query, slices.Concat(first, arrays(rows))...)
	}
}

// arrays returns an array for each column of rows.
func arrays(rows [][]any) []any {
	values := make([][]any, len(rows))
	for i := range rows {
		values[i] = held(rows[i])
	}
	return pgschema.Arrays(values)
}

// held returns arguments as PostgreSQL holds them: valid texts, and times in microseconds.
func held(args []any) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			arg = valid(v)
		case []string:
			texts := make([]string, len(v))
			for n := range v {
				texts[n] = valid(v[n])
			}
			arg = texts
		case time.Time:
			arg = sqlitefile.Micros(v)
		}
		all[i] = arg
	}
	return all
}

type tx struct {
	catalog.Tx
	ctx  context.Context
	conn conn
}

// change runs a transaction that writes. The function read queues what has to be read and
// locked first, and write queues the changes. Both may be called again. A transaction of the
// catalog's own takes two round trips: BEGIN goes with the first, and COMMIT with the second.
// So a process that is stopped in between holds its locks for one round trip of its own.
func (c *Catalog) change(ctx context.Context, read func(batch), write func(*tx) error) error {
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
		if n == tries || !Excluded(err) {
			return err
		}
	}
}

// Excluded reports whether the database broke a transaction off because of another one that
// did the same at the same time.
func Excluded(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40P01" || e.Code == "40001" || e.Code == "23505")
}

// steps sends what a transaction reads, and then what it writes. Own says that it is also begun
// and committed.
func (c *Catalog) steps(ctx context.Context, t conn, own bool, read func(batch), write func(*tx) error) error {
	var b, changes pgx.Batch
	w := &tx{catalog.Tx{Batch: batch{&changes}, Ask: reader(ctx, t)}, ctx, t}
	if own {
		b.Queue("BEGIN")
	}
	b.Queue(sql("begin"), idle).QueryRow(func(row pgx.Row) error {
		var micros int64
		err := row.Scan(nil, &micros)
		w.Now = timeOf(micros)
		return err
	})
	if c.guard.Before != nil {
		c.guard.Before(&b)
	}
	read(batch{&b})
	if err := t.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if c.clock != nil {
		w.Now = c.clock.Now().UTC().Truncate(time.Microsecond)
	}
	if err := write(w); err != nil {
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
func nothing(batch) {}

func (c *Catalog) each(ctx context.Context, row func(catalog.Scan) error, query string, args ...any) error {
	return (*home)(c).View(ctx, func(read catalog.Read) error { return read(row, query, args...) })
}

func reader(ctx context.Context, from conn) catalog.Read {
	return func(row func(catalog.Scan) error, query string, args ...any) error {
		rows, err := from.Query(ctx, sql(query), held(args)...)
		if err != nil {
			return err
		}
		return eachRow(rows, row)
	}
}

func eachRow(rows pgx.Rows, row func(catalog.Scan) error) error {
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

// valid returns a text that PostgreSQL can hold.
func valid(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Known implements [catalog.Home]. It locks the videos in the order in which every page does.
func (h *home) Known(b catalog.Batch, rows []*catalog.Row, others []string, known func(string, catalog.Known)) {
	ids, digests := slices.Clone(others), map[string][]byte{}
	for _, r := range rows {
		ids = append(ids, r.Video.ID)
		digests[r.Video.ID] = digest(r)
	}
	b.Query(func(scan catalog.Scan) error {
		var id string
		var k catalog.Known
		var was []byte
		err := scan(&id, &k.Brief, &was)
		k.Equal = slices.Equal(was, digests[id])
		known(id, k)
		return err
	}, "videos_lock", ids)
}

// digest returns the digest of a video, and notes it.
func digest(r *catalog.Row) []byte {
	if r.Digest == nil {
		said, _ := json.Marshal(held(r.Columns())[1:]) // texts and numbers: it never fails
		sum := sha256.Sum256(said)
		r.Digest = sum[:16]
	}
	return r.Digest
}

func (h *home) SaveVideos(tx catalog.Tx, rows []*catalog.Row) {
	var all [][]any
	for _, r := range rows {
		all = append(all, append(r.Columns(), digest(r)))
	}
	tx.Bulk("videos_save", []any{tx.Now}, all)
	saveWords(tx, rows)
}

func (h *home) RemoveVideos(tx catalog.Tx, ids []string) { tx.Exec("videos_remove", ids) }
