// Lease sets leased blocks beside the plain store, on one Redis server that it starts on
// loopback, with eight processes:
//
//   - far from the limit: reservations a second, in turns
//   - up to the limit: granted and stranded units must be the limit
//   - up to the limit, after kill -9 of one process: at most its block is stranded
//
// Run it with:
//
//	go run ./lease
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// processes is how many processes share the ledger.
const processes = 8

// These are what the benchmark must show.
const (
	wantRatio    = 50.0
	mostStranded = 0.02 // of the limit
)

func main() {
	rounds := flag.Int("rounds", 5, "interleaved rounds, of which the median counts")
	each := flag.Duration("each", 2*time.Second, "time of each side in a round")
	limit := flag.Int64("limit", 4_000_000, "limit of the pool that is used up")
	child := flag.String("child", "", "be one of the processes: plain or leased")
	job := work{}
	flag.StringVar(&job.addr, "addr", "", "the server of a -child")
	flag.StringVar(&job.pool, "pool", "", "the pool of a -child")
	flag.StringVar(&job.count, "count", "", "the file in which a -child counts its grants")
	flag.Parse()
	var err error
	if *child != "" {
		job.leased, job.limit, job.each = *child == "leased", *limit, *each
		err = job.serve(context.Background())
	} else {
		err = run(context.Background(), *rounds, *each, *limit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-lease:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, each time.Duration, limit int64) error {
	dir, err := os.MkdirTemp("", "bench-lease")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := redistest.Start(dir)
	if err != nil {
		return err
	}
	defer server.Kill()
	store, err := redisstore.Open("redis://"+server.Addr, nil)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	b := bench{addr: server.Addr, dir: dir, each: each, store: store}
	if err := b.far(rounds); err != nil {
		return err
	}
	for _, kill := range []bool{false, true} {
		if err := b.toTheLimit(ctx, limit, kill); err != nil {
			return err
		}
	}
	return b.failed
}

type bench struct {
	addr, dir string
	each      time.Duration
	store     quota.Store
	failed    error
}

// goal prints whether a target was reached.
func (b *bench) goal(ok bool, format string, args ...any) {
	word := "ok  "
	if !ok {
		word, b.failed = "MISS", errors.New("a target was missed")
	}
	fmt.Printf("%s %s\n", word, fmt.Sprintf(format, args...))
}

// far compares the rates far from any limit.
func (b *bench) far(rounds int) error {
	const roomy = 1 << 50
	var rates [2][]float64
	var ratios []float64
	for range rounds {
		var rate [2]float64
		for i, kind := range []string{"plain", "leased"} {
			t, err := b.start(kind, "far", roomy)
			if err != nil {
				return err
			}
			if err = t.wait(); err != nil {
				return err
			}
			rate[i] = float64(t.granted()) / b.each.Seconds()
			rates[i] = append(rates[i], rate[i])
		}
		ratios = append(ratios, rate[1]/rate[0])
	}
	ratio := team.Median(ratios)
	fmt.Printf("far from the limit, %d processes, median of %d rounds of %s:\n", processes, rounds, b.each)
	fmt.Printf("     plain  %10.0f reservations a second\n", team.Median(rates[0]))
	fmt.Printf("     leased %10.0f reservations a second\n", team.Median(rates[1]))
	b.goal(ratio >= wantRatio, "%.0f times as many, want %.0f", ratio, wantRatio)
	return nil
}

// toTheLimit lets all processes reserve until nothing is left.
func (b *bench) toTheLimit(ctx context.Context, limit int64, kill bool) error {
	name := fmt.Sprintf("limit-%t", kill)
	t, err := b.start("leased", name, limit)
	if err != nil {
		return err
	}
	if kill {
		for t.granted() < limit/2 {
			time.Sleep(time.Millisecond)
		}
		if err := t.kill(0); err != nil {
			return err
		}
	}
	if err := t.wait(); err != nil {
		return err
	}
	granted := t.granted()
	pages, err := b.store.Look(ctx, []quota.Charge{charge(name, limit)})
	if err != nil {
		return err
	}
	used := pages[0].Windows[0].Used
	stranded := used - granted
	fmt.Printf("up to a limit of %d units", limit)
	if kill {
		fmt.Print(", one process killed halfway")
	}
	fmt.Printf(": %d granted, %d stranded, %d left\n", granted, stranded, limit-used)
	b.goal(used == limit && granted <= limit, "granted + stranded = %d, the limit is %d", used, limit)
	if kill {
		most := charge(name, limit).Lease.Most
		b.goal(stranded <= most, "%.2f%% are stranded, a block is at most %.2f%%", percent(stranded, limit), percent(most, limit))
	} else {
		b.goal(float64(stranded) <= mostStranded*float64(limit), "%.2f%% are stranded, want at most %.0f%%", percent(stranded, limit), 100*mostStranded)
	}
	return nil
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(whole) }

// charge is one unit of a pool with a lease of 2 s and 5%.
func charge(pool string, limit int64) quota.Charge {
	const life = 2 * time.Second
	c := quota.Charge{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: pool},
		Units: 1, Revision: 1, Lease: quota.Lease{Life: life, Most: limit / 20},
	}
	for _, s := range []window.Spec{{Per: 24 * time.Hour, Late: life}, {Period: window.Day}} {
		spec, err := s.Normal()
		if err != nil {
			panic(err) // they are constant
		}
		if spec, err = spec.For(limit); err != nil {
			panic(err)
		}
		c.Windows = append(c.Windows, window.NewLimit(spec, limit))
	}
	return c
}
