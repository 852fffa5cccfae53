package catalog

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"strings"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Source is a catalog to copy from.
type Source interface {
	Path() string
	Count(ctx context.Context, t Table) (int64, error)
	Rows(ctx context.Context, t Table, after []any, limit int) ([][]any, error)
}

// Copied is how far the copy of a table has come.
type Copied struct {
	Table string
	Rows  int64 // that the table has there
	Left  int   // transactions, with this one
}

// CopyRows is the number of rows that one transaction copies.
const CopyRows = 500

// ErrHolds says that a copy would overwrite another catalog.
var ErrHolds = errors.New("copy into an empty database, or into a new file")

// Copy copies a catalog into a new file, and returns the rows of each table. It calls progress
// for every transaction. Until the copy is complete, the file has another name. An
// interrupted copy continues where it stopped. Copy counts the rows at the end, so no other
// process may write to the source meanwhile.
func Copy(ctx context.Context, from Source, path string, progress func(Copied)) (rows map[string]int64, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s exists: %w", path, ErrHolds)
		}
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(from.Path())) // it never fails
	partial := fmt.Sprintf("%s.copy-%x", path, h.Sum64())
	c, err := Open(ctx, partial, nil)
	if err != nil {
		return nil, err
	}
	rows, err = c.fill(ctx, from, progress)
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(partial + "-wal"); err == nil { // else its last pages stay behind
		return nil, fmt.Errorf("another program has %s open; close it, and copy again", partial)
	}
	return rows, os.Rename(partial, path)
}

// fill copies the tables, the rest of each, and makes the index of words.
func (c *Catalog) fill(ctx context.Context, from Source, progress func(Copied)) (map[string]int64, error) {
	all := map[string]int64{}
	for _, t := range Tables {
		of, err := from.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		if all[t.Name], err = c.fillTable(ctx, from, t, of, progress); err != nil {
			return nil, err
		}
	}
	for _, t := range Tables { // the source may have changed meanwhile
		if want, err := from.Count(ctx, t); err != nil {
			return nil, err
		} else if have := all[t.Name]; have != want {
			return nil, fmt.Errorf("%s has %d rows there, and %d in the source: stop what writes to the source, delete %s, and copy again", t.Name, have, want, c.Path())
		}
	}
	return all, c.Rebuild(ctx)
}

// fillTable copies the rows of a table behind the last one that is there. Both have them in the
// order of the key.
func (c *Catalog) fillTable(ctx context.Context, from Source, t Table, of int64, progress func(Copied)) (done int64, err error) {
	if done, err = c.Count(ctx, t); err != nil {
		return 0, err
	}
	key := strings.Join(t.Columns[:t.Key], ", ")
	var after []any
	err = c.each(ctx, func(row sqlitefile.Row) error {
		for _, v := range row {
			after = append(after, v)
		}
		return nil
	}, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s DESC LIMIT 1", key, t.Name, strings.ReplaceAll(key, ",", " DESC,")))
	insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.Name, strings.Join(t.Columns, ", "), strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", "))
	for err == nil {
		var rows [][]any
		if rows, err = from.Rows(ctx, t, after, CopyRows); err != nil || len(rows) == 0 {
			break
		}
		after = rows[len(rows)-1][:t.Key]
		err = c.fault("copy "+t.Name+" to", c.change(ctx, func(tx *tx) error {
			for _, row := range rows {
				args := make([]driver.Value, len(row))
				for i, v := range row {
					args[i] = v
				}
				if _, err := tx.Exec(insert, args...); err != nil {
					return err
				}
			}
			return nil
		}))
		if err == nil {
			left := int(max(of-done, 1)+CopyRows-1) / CopyRows
			done += int64(len(rows))
			progress(Copied{t.Name, done, left})
		}
	}
	return done, err
}
