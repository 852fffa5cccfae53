// Postgres sets Headroom's ledger in PostgreSQL beside a bare UPDATE of one row, on one
// server that writes to disk: with one caller, and with 16 callers in four processes.
//
//	go run ./postgres
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/bench/duel"
	"github.com/headroom-quota/headroom/internal/testing/team"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

func main() {
	rounds := flag.Int("rounds", 21, "interleaved rounds, of which the median counts")
	each := flag.Duration("each", 500*time.Millisecond, "time per contender, number of callers and round")
	child := flag.String("child", "", "be one of the processes: the contender's name")
	url := flag.String("url", "", "the database of a -child")
	callers := flag.Int("callers", 1, "how many callers a -child has")
	flag.Parse()
	var err error
	if *child != "" {
		err = duel.Serve(context.Background(), contenders, *child, *url, *callers, 1, *each)
	} else {
		err = run(*rounds, *each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-postgres:", err)
		os.Exit(1)
	}
}

// A load is so many processes with so many callers each, and what it must reach.
type load struct {
	processes, callers int
	goal               float64       // times the rate of the bare UPDATE
	late               time.Duration // the p99 at most; 0 is any
}

var loads = []load{
	{processes: 1, callers: 1, goal: 0.5},
	{processes: 4, callers: 4, goal: 1.4, late: 30 * time.Millisecond},
}

// A result is what was measured of a contender under a load, by round.
type result struct {
	duel.Result
	load
}

func run(rounds int, each time.Duration) error {
	server, err := pgtest.Open()
	if err != nil {
		return err
	}
	defer server.Close()
	var all []*result
	for _, l := range loads {
		rs, err := compete(server, l, rounds, each)
		if err != nil {
			return err
		}
		all = append(all, rs...)
	}
	fmt.Printf("Median of %d interleaved rounds of %s, with fsync.\n", rounds, each)
	print(all)
	return nil
}

// compete runs the contenders by turns. The processes of the others wait.
func compete(server *pgtest.Server, l load, rounds int, each time.Duration) ([]*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []*result
	var teams []*team.Team
	var results []*duel.Result
	defer func() {
		for _, t := range teams {
			t.Kill()
		}
	}()
	for i, c := range contenders {
		database := fmt.Sprintf("load%d_%d", l.processes, i)
		if err := server.Exec("CREATE DATABASE " + database); err != nil {
			return nil, err
		}
		t, err := team.Start(self, l.processes, "-child", c.Name, "-url", server.URL(database), "-callers", strconv.Itoa(l.callers), "-each", each.String())
		if err != nil {
			return nil, err
		}
		r := &result{Result: duel.Result{Contender: c}, load: l}
		teams, all, results = append(teams, t), append(all, r), append(results, &r.Result)
	}
	return all, duel.Compete(results, teams, 1, rounds) // the first warms up
}

func print(all []*result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nvs bare\tper second\tp99 ms\tprocesses\tcallers\tgoal\t  \t")
	for _, r := range all {
		ratio, late := team.Median(r.Ratios), team.Median(r.Late)
		mark := r.Mark(ratio >= r.goal && (r.late == 0 || late <= r.late.Seconds()))
		fmt.Fprintf(w, "%.2f\t%.0f\t%.1f\t%d\t%d\t%s\t  %s\t\n", ratio, team.Median(r.Rates), 1000*late, r.processes, r.processes*r.callers, mark, r.Name)
	}
	w.Flush()
	fmt.Print(`
vs bare  times the first line of as many callers, round by round
goals    0.5 with one caller; 1.4 with 16, and a p99 of at most 30 ms
`)
}
