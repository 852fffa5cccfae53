package pgcatalog

import (
	"context"
	"testing"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

var ctx = context.Background()

// made is a database with the tables of a catalog.
var made = pgtest.Prepare(func(url string) error {
	c, err := Open(ctx, url, nil)
	if err == nil {
		err = c.Close()
	}
	return err
})

// open opens a new catalog.
func open(t testing.TB, clock quota.Clock) *Catalog {
	t.Helper()
	c, err := Open(ctx, made.Shared(t), &Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// suite describes a catalog in PostgreSQL to the suite.
var suite = &catalogtest.Harness{
	Open:   func(t testing.TB, clock quota.Clock) catalogtest.Catalog { return open(t, clock) },
	NoNUL:  true,
	Ranked: catalog.MaxRanked,
}

func TestCatalog(t *testing.T) { catalogtest.Run(t, suite) }

func FuzzSearch(f *testing.F) { suite.Fuzz(f) }
