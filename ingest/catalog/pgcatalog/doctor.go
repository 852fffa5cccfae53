package pgcatalog

import (
	"context"
	"fmt"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Check compares the index of words with the videos and returns a description of what it
// finds, or nil. The server checks its own files: see amcheck and data checksums in its manual.
func (c *Catalog) Check(ctx context.Context) (problems []string, err error) {
	wrong := 0
	for last, more := int64(0), true; more && err == nil; {
		var rows []*catalog.Row
		err = c.each(ctx, func(scan catalog.Scan) error {
			r, err := scanTexts(scan, &last)
			rows = append(rows, r)
			return err
		}, "texts", last)
		if more = len(rows) > 0; more && err == nil {
			err = c.each(ctx, func(scan catalog.Scan) error {
				n := 0
				err := scan(&n)
				wrong += n
				return err
			}, "words_differ", arrays(wordColumns(rows))...)
		}
	}
	if wrong > 0 {
		problems = append(problems, fmt.Sprintf("the index of words does not match %d videos: rebuild it", wrong))
	}
	return problems, err
}

// Rebuild makes the index of words again.
func (c *Catalog) Rebuild(ctx context.Context) error {
	return (*home)(c).Fault("rebuild the index of", c.index(ctx, "texts"))
}
