package catalog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest"
	"github.com/headroom-quota/headroom/quota"
)

// files describes a catalog in a file to the suite.
var files = &catalogtest.Harness{
	Open: func(t testing.TB, clock quota.Clock) catalogtest.Catalog {
		c, err := catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	},
	Holds: func(t testing.TB, c catalogtest.Catalog, secret string) {
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(c.Path() + suffix) // this drops the locks, and no one writes any more
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(b, []byte(secret)); n > 0 {
				at := bytes.Index(b, []byte(secret))
				t.Errorf("catalog.db%s still holds it %d times: %q", suffix, n, b[max(0, at-20):min(len(b), at+60)])
			}
		}
	},
}

func TestCatalog(t *testing.T) { catalogtest.Run(t, files) }

func FuzzSearch(f *testing.F) { files.Fuzz(f) }
