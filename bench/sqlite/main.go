// Sqlite sets Headroom's ledger in SQLite beside a bare UPDATE of one row that is
// committed with the same settings, in one process and in four that share a file.
//
//	go run ./sqlite
//
// With -old, it also sets callers in one process beside the same program of an earlier
// commit, built with this directory's files:
//
//	git worktree add /tmp/old COMMIT && cp -r sqlite team /tmp/old/bench/
//	go build -C /tmp/old/bench -o /tmp/old-sqlite ./sqlite
//	go run ./sqlite -old /tmp/old-sqlite
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"
)

func main() {
	rounds := flag.Int("rounds", 21, "interleaved rounds, of which the median counts")
	each := flag.Duration("each", 200*time.Millisecond, "time per contender, number of processes and round")
	dir := flag.String("dir", "", "where the files go, which should not be in memory; the default is the directory for temporary files")
	child := flag.String("child", "", "be one of the processes: the contender's name")
	path := flag.String("path", "", "the file of a -child")
	callers := flag.Int("callers", 1, "callers in a -child")
	old := flag.String("old", "", "this program of an earlier commit, to compare with")
	warm := flag.Int("warm", 0, "calls that a -child makes before it is timed")
	flag.Parse()
	var err error
	if *child != "" {
		err = serve(context.Background(), *child, *path, *callers, *warm, *each)
	} else {
		err = run(*rounds, *each, *dir, *old)
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
	program             string
	processes           int
	callers             int       // in each process
	rates, ratios, late []float64 // by round
}

func run(rounds int, each time.Duration, dir, old string) (err error) {
	if dir, err = os.MkdirTemp(dir, "bench-sqlite"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var all []*result
	for _, n := range processes {
		var rs []*result
		for _, c := range contenders {
			if c.callers == nil {
				rs = append(rs, &result{contender: c, program: self, processes: n, callers: 1})
			}
		}
		if err := compete(rs, rounds, each, dir); err != nil {
			return err
		}
		all = append(all, rs...)
	}
	fmt.Printf("Median of %d interleaved rounds of %s.\n", rounds, each)
	print(all)
	return together(self, old, rounds, each, dir)
}

// together measures callers in one process, if told so beside an earlier build.
func together(self, old string, rounds int, each time.Duration, dir string) error {
	var all []*result
	for _, c := range contenders {
		for _, n := range c.callers {
			if old != "" {
				all = append(all, &result{contender: c, program: old, processes: 1, callers: n})
			}
			all = append(all, &result{contender: c, program: self, processes: 1, callers: n})
		}
	}
	if err := compete(all, rounds, each, dir); err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nvs before\tper second\tp99, ms\tcallers\t  \t")
	before := all[0]
	for _, r := range all {
		build := "now"
		if r.program != self {
			build = "before"
		}
		if r.callers != before.callers || build == "before" {
			before = r
		}
		ratios := make([]float64, rounds)
		for i := range ratios {
			ratios[i] = r.rates[i] / before.rates[i]
		}
		fmt.Fprintf(w, "%.2f\t%.0f\t%.1f\t%d\t  %s\t\n", team.Median(ratios), team.Median(r.rates), 1000*team.Median(r.late), r.callers, build)
	}
	return w.Flush()
}

// compete runs the contenders by turns; the processes of those whose turn it is
// not wait.
func compete(all []*result, rounds int, each time.Duration, dir string) error {
	var teams []*team.Team
	defer func() {
		for _, t := range teams {
			t.Kill()
		}
	}()
	for _, r := range all {
		mine, err := os.MkdirTemp(dir, "ledger")
		if err != nil {
			return err
		}
		t, err := team.Start(r.program, r.processes, "-child", r.name, "-callers", strconv.Itoa(r.callers), "-path", filepath.Join(mine, "ledger.db"),
			"-warm", strconv.Itoa(warmUp/r.processes), "-each", each.String())
		if err != nil {
			return err
		}
		teams = append(teams, t)
	}
	for range rounds {
		for i, r := range all {
			rate, late, err := teams[i].Round()
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.rates, r.late = append(r.rates, rate), append(r.late, late)
			r.ratios = append(r.ratios, rate/all[0].rates[len(r.rates)-1])
		}
	}
	return nil
}

func print(all []*result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nvs bare\tper second\tprocesses\tgoal\t  \t")
	for _, r := range all {
		mark := ""
		switch {
		case !r.judged:
		case team.Median(r.ratios) >= goal:
			mark = "reached"
		default:
			mark = "MISSED"
		}
		fmt.Fprintf(w, "%.2f\t%.0f\t%d\t%s\t  %s\t\n", team.Median(r.ratios), team.Median(r.rates), r.processes, mark, r.name)
	}
	w.Flush()
	fmt.Printf(`
vs bare  times the first line of as many processes, round by round; the goal is %.1f
`, goal)
}

// warmUp is so many calls on a file that its -wal has been filled and begun again. Until then
// the file grows, and committing to a growing file is slower.
const warmUp = 6000

// serve is what a child does.
func serve(ctx context.Context, name, path string, callers, warm int, each time.Duration) error {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return fmt.Errorf("there is no contender %q", name)
	}
	do, end, err := contenders[i].open(ctx, path)
	if err != nil {
		return err
	}
	for range warm {
		if err = do(ctx); err != nil {
			break
		}
	}
	if err == nil {
		err = team.Serve(ctx, callers, each, do)
	}
	return errors.Join(err, end())
}
