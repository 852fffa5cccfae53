// Catalog sets Headroom's catalog beside a bare bulk insert of the same rows and FTS5,
// and its search beside the bare query of the same index.
//
//	go run ./catalog
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"

	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/library"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

func main() {
	rounds := flag.Int("rounds", 5, "interleaved rounds of saving, of which the median counts")
	videos := flag.Int("videos", 20_000, "videos that each contender saves in a round")
	searched := flag.Int("searched", 200_000, "videos that are searched")
	times := flag.Int("times", 9, "how often each query is asked, by turns")
	inPostgres := flag.Int("postgres", 50_000, "videos that are searched in PostgreSQL; 0 leaves it out")
	dir := flag.String("dir", "", "where the files go, which should not be in memory; the default is the directory for temporary files")
	seed := flag.Uint64("seed", 1, "of the texts")
	flag.Parse()
	if err := run(context.Background(), *rounds, *videos, *searched, *inPostgres, *times, *dir, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "bench-catalog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, videos, searched, inPostgres, times int, dir string, seed uint64) (err error) {
	if dir, err = os.MkdirTemp(dir, "bench-catalog"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if rounds > 0 {
		if err := save(ctx, rounds, videos, dir, seed); err != nil {
			return err
		}
	}
	if searched > 0 {
		if err := search(ctx, searched, times, dir, seed); err != nil {
			return err
		}
	}
	if inPostgres > 0 {
		return postgres(ctx, inPostgres, times, seed)
	}
	return nil
}

// goal is the part of the bare insert's rate that the catalog has to reach.
const goal = 0.6

func save(ctx context.Context, rounds, videos int, dir string, seed uint64) error {
	l := library.New(seed)
	rates, sizes := make([][]float64, len(contenders)), make([]int64, len(contenders))
	for round := range rounds {
		var pages [][]catalog.Video
		for n := range videos / 50 {
			pages = append(pages, l.Page(n))
		}
		for i, c := range contenders {
			path := filepath.Join(dir, fmt.Sprintf("%d-%d.db", round, i))
			begun := time.Now()
			if err := c.save(ctx, path, pages); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rates[i] = append(rates[i], float64(videos)/time.Since(begun).Seconds())
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			sizes[i] = info.Size()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(path + suffix)
			}
		}
	}
	fmt.Printf("Saving %d videos, median of %d interleaved rounds.\n", videos, rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nvs bare\tvideos per second\tMB\tgoal\t  \t")
	for i, c := range contenders {
		var ratios []float64
		for round, rate := range rates[i] {
			ratios = append(ratios, rate/rates[0][round])
		}
		fmt.Fprintf(w, "%.2f\t%.0f\t%d\t%s\t  %s\t\n", team.Median(ratios), team.Median(rates[i]), sizes[i]>>20, verdict(c.judged, team.Median(ratios) >= goal), c.name)
	}
	w.Flush()
	fmt.Printf("\nvs bare  times the first line's, round by round; the goal is %.1f\n", goal)
	return nil
}

func verdict(judged, reached bool) string {
	switch {
	case !judged:
		return ""
	case reached:
		return "reached"
	}
	return "MISSED"
}
