package catalog

import (
	"cmp"
	"context"
	"database/sql/driver"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/words"
	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sqlite/*.sql
var ownFiles embed.FS

var files = &sqlitefile.Kind{
	Name:        "catalog",
	Application: 1215458659, // see 0001_catalog.sql
	Spared:      "a page that was paid for",
	Full:        "make room, and the next run goes on where this one stopped",
	Damaged:     "restore a backup, or move the file away and fetch again; doctor repairs only the index of words",
	Steps:       sqlfiles.Steps(schemaFiles),
	Statements:  read(),
	Pragmas:     []string{"secure_delete(1)", "cache_size(-65536)", "temp_store(2)"},
	Settings:    []sqlitefile.Setting{{Pragma: "secure_delete", Want: "1", Otherwise: "deleted data would stay in the file"}},
}

// file is a [Catalog] as a [Home].
type file Catalog

var _ Home = (*file)(nil)

func (f *file) Path() string                        { return f.file.Path }
func (f *file) Fault(doing string, err error) error { return files.Fault(doing, f.file.Path, err) }

// View implements [Home]. All reads see the same state of the file.
func (f *file) View(ctx context.Context, do func(Read) error) error {
	return f.file.Read(ctx, func(s *sqlitefile.Session) error { return do(reader(s)) })
}

func (f *file) Change(ctx context.Context, read func(Batch), write func(Tx) error) error {
	c := (*Catalog)(f)
	return c.change(ctx, func(s *sqlitefile.Session) error {
		b := &batch{session: s}
		if read(b); b.err != nil {
			return b.err
		}
		err := write(Tx{b, c.clock.Now().UTC().Truncate(time.Microsecond), reader(s)}) // read while the lock is held
		return cmp.Or(b.err, err)
	})
}

func (*file) Known(b Batch, rows []*Row, others []string, known func(string, Known)) {
	b.Query(func(scan Scan) error {
		var id string
		err := scan(&id)
		known(id, Known{})
		return err
	}, "videos_there", others)
	for _, r := range rows {
		b.Query(func(scan Scan) error {
			var k Known
			err := scan(&k.Brief, &k.Equal)
			known(r.Video.ID, k)
			return err
		}, "video_known", r.Columns()...)
	}
}

// SaveVideos implements [Home]. A video never changes its row, because the index and the charts
// refer to it.
func (*file) SaveVideos(tx Tx, rows []*Row) {
	var ids []string
	var columns [][]any
	for _, r := range rows {
		ids, columns = append(ids, r.Video.ID), append(columns, r.Columns())
	}
	tx.Exec("index_remove", ids) // while the rows have the old text
	tx.Bulk("videos_save", []any{tx.Now}, columns)
	tx.Exec("index_add", ids)
}

func (*file) RemoveVideos(tx Tx, ids []string) {
	tx.Exec("index_remove", ids)
	tx.Exec("videos_remove", ids)
}

func (*file) Saved(Tx, Saved) {}

// batch is a [Batch] that runs its statements at once, until one of them fails.
type batch struct {
	session *sqlitefile.Session
	err     error
}

func (b *batch) Exec(query string, args ...any) { b.Count(new(int), query, args...) }

func (b *batch) Count(n *int, query string, args ...any) {
	if b.err == nil {
		var changed int64
		changed, b.err = b.session.Exec(text(query), held(args)...)
		*n = int(changed)
	}
}

func (b *batch) Query(row func(Scan) error, query string, args ...any) {
	if b.err == nil {
		b.err = reader(b.session)(row, query, args...)
	}
}

func (b *batch) Bulk(query string, first []any, rows [][]any) {
	for _, row := range rows {
		b.Exec(query, slices.Concat(first, row)...)
	}
}

func reader(s *sqlitefile.Session) Read {
	return func(row func(Scan) error, query string, args ...any) error {
		return s.Rows(text(query), held(args), func(r sqlitefile.Row) error { return row(r.Scan) })
	}
}

// held returns arguments as SQLite holds them: valid texts, and a list in JSON.
func held(args []any) []driver.Value {
	all := make([]driver.Value, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			arg = validText(v)
		case []string, []int64:
			list, _ := json.Marshal(v) // it never fails
			arg = string(list)
		}
		all[i] = arg
	}
	return all
}

// text returns the text of a query for SQLite, or its name.
func text(query string) string {
	if _, named := files.Statements[query]; named {
		return query
	}
	return translated(query)
}

// read returns the statements of this home: its own, and those that all share.
func read() map[string]string {
	all := Statements()
	for name, text := range all {
		all[name] = translated(text)
	}
	maps.Copy(all, sqlfiles.Statements(ownFiles))
	return all
}

// translated returns a statement in the words of SQLite, which has no schemas, arrays, casts to a
// type of PostgreSQL, and locks of rows.
var translated = strings.NewReplacer(
	"headroom_catalog.", "",
	"= ANY($", "IN (SELECT value FROM json_each(?", "::bigint[])", "))", "::text[])", "))",
	"$", "?",
	"::bigint", "", "::boolean", "", "::integer", "", "::text", "",
	" FOR NO KEY UPDATE", "", " FOR UPDATE", "", " FOR SHARE", "", " SKIP LOCKED", "",
	` COLLATE "C"`, "",
	"greatest(", "max(",
).Replace

// change runs a transaction that writes. It fails if another version of the program has
// rebuilt the index since the file was opened.
func (c *Catalog) change(ctx context.Context, do func(*sqlitefile.Session) error) error {
	return c.file.Write(ctx, c.wait, func(s *sqlitefile.Session) error {
		row, err := s.One("words_find")
		if err != nil {
			return err
		}
		if made := row.Text(0); made != words.Version {
			return fmt.Errorf("another version of the program rebuilt its index, for %s; stop the older one, and start this one again", made)
		}
		return do(s)
	})
}
