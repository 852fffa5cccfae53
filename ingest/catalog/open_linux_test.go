package catalog

import (
	"io"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/filetest"
)

func init() {
	children["as nobody"] = filetest.AsNobody(func(path string) error {
		c, err := Open(ctx, path, nil)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

func TestWithoutTheRightToWrite(t *testing.T) {
	kept.WithoutRights(t, func(t *testing.T, path string) (io.Closer, func(*testing.T)) {
		c := must(t, path, nil)
		save(t, begin(t, c), "DE", Page{Videos: named("a")})
		before := dumped(t, c, false)
		return c, func(t *testing.T) {
			if after := dumped(t, must(t, path, nil), false); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		}
	})
}
