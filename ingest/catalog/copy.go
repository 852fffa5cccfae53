package catalog

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"slices"
	"strings"
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
	rows, err = c.Fill(ctx, from, func(ctx context.Context, t Table, rows [][]any) error {
		insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.Name, strings.Join(t.Columns, ", "), strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", "))
		return c.write(ctx, "copy "+t.Name+" to", func(tx Tx) { tx.Bulk(insert, nil, rows) })
	}, "stop what writes to the source, delete "+partial+", and copy again", progress)
	if err == nil {
		err = c.Rebuild(ctx)
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(partial + "-wal"); err == nil { // else its last pages stay behind
		return nil, fmt.Errorf("another program has %s open; close it, and copy again", partial)
	}
	return rows, os.Rename(partial, path)
}

// Fill copies the rest of each table, and returns how many rows it has then. Put stores rows.
// The remedy is what to do if the source has changed meanwhile.
func (e *Engine) Fill(ctx context.Context, from Source, put func(context.Context, Table, [][]any) error, remedy string, progress func(Copied)) (map[string]int64, error) {
	for _, t := range Tables {
		if err := e.fillTable(ctx, from, t, put, progress); err != nil {
			return nil, err
		}
	}
	all := map[string]int64{}
	for _, t := range Tables {
		want, err := from.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		have, err := e.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		if have != want {
			return nil, fmt.Errorf("%s has %d rows there, and %d in the source: %s", t.Name, have, want, remedy)
		}
		all[t.Name] = have
	}
	return all, nil
}

// fillTable copies the rows of a table behind the last one that is there. Both have them in the
// order of the key.
func (e *Engine) fillTable(ctx context.Context, from Source, t Table, put func(context.Context, Table, [][]any) error, progress func(Copied)) error {
	of, err := from.Count(ctx, t)
	if err != nil {
		return err
	}
	done, err := e.Count(ctx, t)
	if err != nil {
		return err
	}
	var after []any
	key := t.Columns[:t.Key]
	err = e.home.View(ctx, func(read Read) error {
		return values(read, t.Key, func(row []any) error {
			after = row
			return nil
		}, fmt.Sprintf("SELECT %s FROM headroom_catalog.%s ORDER BY %s DESC LIMIT 1", strings.Join(key, ", "), t.Name, strings.Join(key, " DESC, ")))
	})
	for err == nil {
		var rows [][]any
		if rows, err = from.Rows(ctx, t, after, CopyRows); err != nil || len(rows) == 0 {
			break
		}
		after = slices.Clone(rows[len(rows)-1][:t.Key])
		if err = put(ctx, t, rows); err == nil {
			left := int(max(of-done, 1)+CopyRows-1) / CopyRows
			done += int64(len(rows))
			progress(Copied{t.Name, done, left})
		}
	}
	return err
}
