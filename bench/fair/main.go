// Fair shows how eight processes share one pool in which there is less than they want: on Redis, SQLite and
// PostgreSQL, with a fixed price, and with calls to a language model whose cost is known when they
// end. One more process makes calls that are ten times as heavy.
//
//	go run ./fair
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
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// processes is how many equal ones share the pool.
const processes = 8

// These are what the benchmark must show.
const (
	wantIndex   = 0.95
	wantPoorest = 0.6 // of its share
	wantUsed    = 0.93
)

func main() {
	each := flag.Duration("each", 90*time.Second, "how long each mix runs")
	mixes := flag.String("mixes", "fixed,model,fixed and heavy,model and heavy,leased,cheap-leased,paid", "what runs; of the last three, the first process has few callers")
	only := flag.String("on", "", "only this store: redis, sqlite or postgres")
	callers := flag.Int("callers", 4, "callers of each process")
	w := worker{}
	flag.StringVar(&w.kind, "child", "", "be one of the processes: fixed, model, heavy, few or many")
	flag.StringVar(&w.ledger, "ledger", "", "the ledger of a -child")
	flag.Int64Var(&w.end, "end", 0, "when a -child ends, in milliseconds")
	flag.Int64Var(&w.counts, "counts", 0, "from when a -child counts, in milliseconds")
	flag.Parse()
	var err error
	if w.kind != "" {
		err = w.run(context.Background(), *callers)
	} else {
		err = run(*each, *only, strings.Split(*mixes, ","), *callers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-fair:", err)
		os.Exit(1)
	}
}

func run(each time.Duration, only string, mixes []string, callers int) error {
	dir, err := os.MkdirTemp("", "bench-fair")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := redistest.Start(dir)
	if err != nil {
		return err
	}
	defer server.Kill()
	postgres, err := pgtest.Open()
	if err != nil {
		return err
	}
	defer postgres.Close()
	ledgers := []string{"redis://" + server.Addr, "sqlite:" + filepath.Join(dir, "ledger.db"), postgres.URL("postgres")}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "store\tmix\tunits of each process\tindex\tpoorest\tlongest wait\tused\t\n")
	missed := false
	for _, ledger := range ledgers {
		store, _, _ := strings.Cut(ledger, ":")
		if only != "" && store != only {
			continue
		}
		for _, mix := range mixes {
			m, err := measure(ledger, mix, each, callers)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", store, mix, err)
			}
			ok := m.index >= wantIndex && m.poorest >= wantPoorest && m.used >= wantUsed
			verdict := "ok"
			if !ok {
				verdict, missed = "MISS", true
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%.2f\t%.2f\t%s\t%.2f\t%s\n", store, mix, m.units, m.index, m.poorest, m.longest.Round(100*time.Millisecond), m.used, verdict)
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
	if missed {
		return errors.New("a target was missed")
	}
	return nil
}

// shares is how a pool was shared.
type shares struct {
	units   string
	index   float64       // Jain's
	poorest float64       // of an equal share
	longest time.Duration // that a call has waited: a heavy one, if there are any
	used    float64       // of what the window grants
}

func measure(ledger, mix string, each time.Duration, callers int) (*shares, error) {
	kind, heavy := strings.CutSuffix(mix, " and heavy")
	kinds := slices.Repeat([]string{kind}, processes)
	if cheap, leased := strings.CutSuffix(mix, "leased"); leased {
		kinds = append([]string{cheap + "few"}, slices.Repeat([]string{cheap + "many"}, processes-1)...)
	}
	if kind == "paid" {
		kinds = append([]string{"paid-few"}, slices.Repeat([]string{"paid-many"}, processes-1)...)
	}
	if heavy {
		kinds = append(kinds, "heavy")
	}
	all, err := work(ledger, kinds, each, callers)
	if err != nil {
		return nil, err
	}
	s := &shares{poorest: 1}
	sum, squares := 0.0, 0.0
	var units []string
	for i, r := range all {
		sum, squares = sum+float64(r.Units), squares+float64(r.Units)*float64(r.Units)
		units = append(units, fmt.Sprint(r.Units/1000, "k"))
		if !heavy || kinds[i] == "heavy" {
			s.longest = max(s.longest, r.Longest)
		}
	}
	n := float64(len(all))
	s.units, s.index = strings.Join(units, " "), sum*sum/n/squares
	for _, r := range all {
		s.poorest = min(s.poorest, float64(r.Units)/(sum/n))
	}
	s.used = sum / (limit * (each - warmUp).Seconds() / per.Seconds())
	return s, nil
}
