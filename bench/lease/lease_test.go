package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-child") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSides keeps the benchmark running: all processes of both sides are granted units.
func TestSides(t *testing.T) {
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	b := bench{addr: server.Addr, dir: t.TempDir(), each: 200 * time.Millisecond}
	for _, kind := range []string{"plain", "leased"} {
		all, err := b.start(kind, "far", 1<<50)
		if err != nil {
			t.Fatal(err)
		}
		if err := all.wait(); err != nil {
			t.Fatal(err)
		}
		for i, c := range all.counts {
			if c.Load() == 0 {
				t.Errorf("process %d of the %s side was granted nothing", i, kind)
			}
		}
	}
}
