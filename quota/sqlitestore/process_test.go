package sqlitestore

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// children are what a process can be told to do with the ledger at a path.
var children = map[string]childtest.Task{}

func TestMain(m *testing.M) { childtest.Main(m, children) }

// units is a charge of a pool with a trailing day and one of the calendar, as
// YouTube's have.
func units(n, limit int64) quota.Charge {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err)
	}
	c := quota.Charge{Pool: quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}, Units: n, Revision: 1, Zone: pacific}
	for _, s := range []window.Spec{{Per: 24 * time.Hour}, {Period: window.Day, Zone: pacific}} {
		if s, err = s.Normal(); err != nil {
			panic(err)
		}
		c.Windows = append(c.Windows, window.NewLimit(s, limit))
	}
	return c
}

// must opens a ledger.
func must(t testing.TB, path string, o *Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// scaled returns the reduced count, or the full one in a soak.
func scaled(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}
