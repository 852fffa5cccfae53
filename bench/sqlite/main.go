// Sqlite sets Headroom's ledger in SQLite beside a bare UPDATE of one row that is
// committed with the same settings, in one process and in four that share a file.
//
//	go run ./sqlite
//
// With -old, it also sets callers in one process beside the same program of an earlier
// commit, built with this directory's files:
//
//	git worktree add /tmp/old COMMIT && cp -r sqlite duel /tmp/old/bench/
//	go build -C /tmp/old/bench -o /tmp/old-sqlite ./sqlite
//	go run ./sqlite -old /tmp/old-sqlite
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/bench/duel"
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
		err = duel.Serve(context.Background(), contenders, *child, *path, *callers, *warm, *each)
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
	duel.Result
	program   string
	processes int
	callers   int // in each process
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
			if c.Callers == nil {
				rs = append(rs, &result{Result: duel.Result{Contender: c}, program: self, processes: n, callers: 1})
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
		for _, n := range c.Callers {
			if old != "" {
				all = append(all, &result{Result: duel.Result{Contender: c}, program: old, processes: 1, callers: n})
			}
			all = append(all, &result{Result: duel.Result{Contender: c}, program: self, processes: 1, callers: n})
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
			ratios[i] = r.Rates[i] / before.Rates[i]
		}
		fmt.Fprintf(w, "%.2f\t%.0f\t%.1f\t%d\t  %s\t\n", team.Median(ratios), team.Median(r.Rates), 1000*team.Median(r.Late), r.callers, build)
	}
	return w.Flush()
}

// compete runs the contenders by turns; the processes of those whose turn it is
// not wait.
func compete(all []*result, rounds int, each time.Duration, dir string) error {
	var teams []*team.Team
	var results []*duel.Result
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
		t, err := team.Start(r.program, r.processes, "-child", r.Name, "-callers", strconv.Itoa(r.callers), "-path", filepath.Join(mine, "ledger.db"),
			"-warm", strconv.Itoa(warmUp/r.processes), "-each", each.String())
		if err != nil {
			return err
		}
		teams, results = append(teams, t), append(results, &r.Result)
	}
	return duel.Compete(results, teams, 0, rounds)
}

func print(all []*result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nvs bare\tper second\tprocesses\tgoal\t  \t")
	for _, r := range all {
		ratio := team.Median(r.Ratios)
		fmt.Fprintf(w, "%.2f\t%.0f\t%d\t%s\t  %s\t\n", ratio, team.Median(r.Rates), r.processes, r.Mark(ratio >= goal), r.Name)
	}
	w.Flush()
	fmt.Printf(`
vs bare  times the first line of as many processes, round by round; the goal is %.1f
`, goal)
}

// warmUp is so many calls on a file that its -wal has been filled and begun again. Until then
// the file grows, and committing to a growing file is slower.
const warmUp = 6000
