// Sqlite sets Headroom's ledger in SQLite beside a bare UPDATE of one row that is
// committed with the same settings, in one process and in four that share a file.
//
//	go run ./sqlite
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 21, "interleaved rounds, of which the median counts")
	each := flag.Duration("each", 200*time.Millisecond, "time per contender, number of processes and round")
	dir := flag.String("dir", "", "where the files go, which should not be in memory; the default is the directory for temporary files")
	child := flag.String("child", "", "be one of the processes: the contender's name")
	path := flag.String("path", "", "the file of a -child")
	warm := flag.Int("warm", 0, "calls that a -child makes before it is timed")
	flag.Parse()
	var err error
	if *child != "" {
		err = serve(context.Background(), *child, *path, *warm, *each)
	} else {
		err = run(*rounds, *each, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-sqlite:", err)
		os.Exit(1)
	}
}

// goal is the part of the bare UPDATE's rate that reservations have to reach.
const goal = 0.7

// processes are how many work on one file at once.
var processes = [...]int{1, 4}

// A result is what was measured of a contender with so many processes.
type result struct {
	contender
	processes     int
	rates, ratios []float64 // by round
}

func run(rounds int, each time.Duration, dir string) (err error) {
	if dir, err = os.MkdirTemp(dir, "bench-sqlite"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var all []*result
	for _, n := range processes {
		rs, err := compete(n, rounds, each, dir)
		if err != nil {
			return err
		}
		all = append(all, rs...)
	}
	fmt.Printf("Median of %d interleaved rounds of %s.\n", rounds, each)
	print(all)
	return nil
}

// compete runs the contenders by turns; the processes of those whose turn it is
// not wait.
func compete(n, rounds int, each time.Duration, dir string) ([]*result, error) {
	var all []*result
	var teams []*team
	defer func() {
		for _, t := range teams {
			t.kill()
		}
	}()
	for _, c := range contenders {
		t, err := start(c.name, n, each, dir)
		if err != nil {
			return nil, err
		}
		teams = append(teams, t)
		all = append(all, &result{contender: c, processes: n})
	}
	for range rounds {
		for i, r := range all {
			rate, err := teams[i].round()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			r.rates = append(r.rates, rate)
			r.ratios = append(r.ratios, rate/all[0].rates[len(r.rates)-1])
		}
	}
	return all, nil
}

func print(all []*result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nvs bare\tper second\tprocesses\tgoal\t  \t")
	for _, r := range all {
		mark := ""
		switch {
		case !r.judged:
		case median(r.ratios) >= goal:
			mark = "reached"
		default:
			mark = "MISSED"
		}
		fmt.Fprintf(w, "%.2f\t%.0f\t%d\t%s\t  %s\t\n", median(r.ratios), median(r.rates), r.processes, mark, r.name)
	}
	w.Flush()
	fmt.Printf(`
vs bare  times the first line of as many processes, round by round; the goal is %.1f
`, goal)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
