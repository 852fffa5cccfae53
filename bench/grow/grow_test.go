package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// TestRun keeps the benchmark running, and its parts together: it measures every store, and
// makes the picture and the page.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "grow")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "README.md")
	if err := os.WriteFile(page, []byte("before\n"+begins+"old\n"+ends+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stores := storeNames[:3]
	if os.Getenv("HEADROOM_SOAK") != "" {
		stores = storeNames // a server of PostgreSQL takes long to start
	}
	p := &plan{stores: stores, series: []string{"24 h", "clients"}, most: 100, reserved: 10, rounds: 1, each: time.Millisecond, dir: dir}
	if err := run(context.Background(), p, out, false); err != nil {
		t.Fatal(err)
	}
	all, err := readFigures(filepath.Join(out, "figures.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range p.stores {
		for _, series := range p.series {
			sizes := []int{1, 10, 100}
			if store == "PostgreSQL" {
				sizes = sizes[:2] // more are not made there
			}
			for _, n := range sizes {
				for _, callers := range crowds {
					if ratio(all, store, series, n, callers) <= 0 {
						t.Errorf("%s, %s: nothing was measured of %d pools and %d callers", store, series, n, callers)
					}
				}
			}
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || string(text) != "before\n"+begins+report(all)+ends+"after\n" {
		t.Errorf("the page is %q, %v", text, err)
	}
}

// TestHot keeps the measurement of a hot key running. All that was granted or is stranded is below the limit.
func TestHot(t *testing.T) {
	l, err := openers["SQLite"](t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	p := &plan{rounds: 1, each: 100 * time.Millisecond}
	if _, err := p.hotKey(t.Context(), "SQLite", l, 100); err != nil {
		t.Fatal(err)
	}
}

// TestCopies shows that a store takes copied pools and clients for those that it has made.
func TestCopies(t *testing.T) {
	for _, store := range []string{"SQLite", "Redis"} {
		for _, s := range []series{allSeries[1], allSeries[3]} {
			p := plan{reserved: 10}
			c, _, err := p.fill(context.Background(), store, s, s.name, 50, t.TempDir())
			if err != nil {
				t.Fatal(store, s.name, err)
			}
			defer c.end()
			for i := range c.names {
				if err := reserve(t.Context(), c.ledger, quota.Request{Charges: []quota.Charge{c.charge(i)}}); err != nil {
					t.Fatalf("%s, %s, pool %d: %v", store, s.name, i, err)
				}
				state, err := c.Look(t.Context(), []quota.Charge{c.charge(i)})
				if err != nil || state[0].Windows[0].Used != 6 {
					t.Errorf("%s, %s, pool %d: %+v, %v; want what was copied and three units more", store, s.name, i, state, err)
				}
			}
		}
	}
}

// TestDrawn checks that the picture and the page are those of the figures.
func TestDrawn(t *testing.T) {
	all, err := readFigures("figures.csv")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("plot.svg")
	if err != nil || string(picture) != string(plot(all)) {
		t.Errorf("plot.svg (%v) is not that of figures.csv; run: go run ./grow -draw", err)
	}
	page, err := os.ReadFile("../README.md")
	if err != nil || !strings.Contains(string(page), begins+report(all)+ends) {
		t.Errorf("README.md (%v) has not the tables of figures.csv; run: go run ./grow -draw", err)
	}
}

// TestFullestMaster: partitions lie by the slots of their tags, so the fullest master has
// more of them than an equal share.
func TestFullestMaster(t *testing.T) {
	if sum := crc16("123456789"); sum != 0x31C3 { // of Redis Cluster's specification
		t.Errorf("crc16 is %#x", sum)
	}
	for masters, want := range map[float64]float64{1: 64, 6: 12, 16: 6, 32: 3, 64: 3} {
		if got := onFullest(masters); got != want {
			t.Errorf("the fullest of %.0f masters has %.0f partitions, want %.0f", masters, got, want)
		}
	}
}
