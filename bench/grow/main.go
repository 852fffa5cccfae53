// Grow measures how the cost of a ledger grows: reservations a second, and bytes, for 1 to
// 1,000,000 pools, windows of a minute, a day and 30 days, and 1 to 64 callers, in memory,
// SQLite, Redis and PostgreSQL.
//
//	go run ./grow                           # all of it
//	go run ./grow -stores Redis -most 10000 # a part; the other figures stay as they are
//	go run ./grow -draw                     # measures nothing
//
// The figures go to figures.csv. The picture plot.svg and a part of ../README.md are made
// from that file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	p := plan{reserved: 10_000}
	stores := flag.String("stores", strings.Join(storeNames, ","), "stores to measure")
	series := flag.String("series", strings.Join(seriesNames(), ","), "pools and windows to measure")
	flag.IntVar(&p.most, "most", sizes[len(sizes)-1], "the most pools")
	flag.IntVar(&p.rounds, "rounds", 5, "interleaved rounds, of which the median counts")
	flag.DurationVar(&p.each, "each", 100*time.Millisecond, "time of a turn: a number of pools and of callers")
	flag.StringVar(&p.dir, "dir", "", "where SQLite's files go, which should not be in memory; the default is the directory for temporary files")
	out := flag.String("out", "grow", "the directory of figures.csv and plot.svg, below the README.md")
	draw := flag.Bool("draw", false, "measure nothing; make the picture and the tables from figures.csv")
	hot := flag.Int("hot", 0, "measure leased blocks of one hot key among so many, and nothing else")
	flag.Parse()
	p.stores, p.series = strings.Split(*stores, ","), strings.Split(*series, ",")
	err := error(nil)
	if *hot > 0 {
		err = p.hot(context.Background(), *hot)
	} else {
		err = run(context.Background(), &p, *out, *draw)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-grow:", err)
		os.Exit(1)
	}
}

// sizes are the numbers of pools, and crowds those of callers.
var (
	sizes  = []int{1, 10, 100, 10_000, 1_000_000}
	crowds = []int{1, 4, 16, 64}
)

// A plan says what is measured.
type plan struct {
	stores, series []string
	most, rounds   int
	each           time.Duration
	dir            string
	reserved       int // the most pools that are made by reservations where they can be copied
}

// run measures block by block: the numbers of pools of one store and one window. It saves
// the figures after each block.
func run(ctx context.Context, p *plan, out string, draw bool) error {
	path := filepath.Join(out, "figures.csv")
	all, err := readFigures(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, name := range append(slices.Clone(p.stores), p.series...) {
		if !slices.Contains(storeNames, name) && !slices.Contains(seriesNames(), name) {
			return fmt.Errorf("there is no %q; stores are %s, series are %s", name, strings.Join(storeNames, ", "), strings.Join(seriesNames(), ", "))
		}
	}
	for _, store := range p.stores {
		if draw {
			break
		}
		for _, s := range allSeries {
			if !slices.Contains(p.series, s.name) {
				continue
			}
			began := time.Now()
			measured, err := p.block(ctx, store, s)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", store, s.name, err)
			}
			fmt.Printf("%-10s %-11s %4.0f s\n", store, s.name, time.Since(began).Seconds())
			if err := writeFigures(path, merge(all, measured)); err != nil {
				return err
			}
			if all, err = readFigures(path); err != nil { // as they are rounded
				return err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(out, "plot.svg"), plot(all), 0o600); err != nil {
		return err
	}
	return insert(filepath.Join(filepath.Dir(out), "README.md"), report(all))
}
