// Bench sets Headroom beside other limiters in memory: how fast each reserves,
// and what each admits at worst.
//
//	go run .            # the table
//	go test -bench .    # the same, for benchstat
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"
)

func main() {
	rounds := flag.Int("rounds", 11, "interleaved rounds, of which the median counts")
	each := flag.Duration("each", 100*time.Millisecond, "time per limiter and round")
	testing.Init()
	flag.Parse()
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("A reserve of %d units, in memory; median of %d interleaved rounds of %s.\n", weight, *rounds, *each)
	for _, g := range groups {
		fmt.Printf("\n%s\n", g.title)
		printTable(os.Stdout, g, *rounds)
	}
	printTransport(os.Stdout, 1000**rounds)
	printThrottle(os.Stdout, 1000**rounds)
	fmt.Print(`
vs AllowN  times the first line of its part, round by round
worst      units admitted in one trailing window, as a multiple of the limit, by the worst
           of the bursts in worst.go: above 1.00 the upstream would have refused
adds us    what metering takes of a call, beside the bare one; medians
`)
}

// A row is what was measured of one contender.
type row struct {
	ratio, ns []float64 // by round
	allocs    int64
}

func printTable(out io.Writer, g group, rounds int) {
	rows := make([]row, len(g.contenders))
	for range rounds {
		for i, c := range g.contenders {
			r := testing.Benchmark(c.bench)
			if r.N == 0 {
				fmt.Fprintf(os.Stderr, "%s: refused a call that it should have granted\n", c.name)
				os.Exit(1)
			}
			ns := float64(r.T.Nanoseconds()) / float64(r.N)
			rows[i].ns = append(rows[i].ns, ns)
			rows[i].ratio = append(rows[i].ratio, ns/rows[0].ns[len(rows[0].ns)-1])
			rows[i].allocs = r.AllocsPerOp()
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "vs AllowN\tns\tallocs\tworst\t  \t")
	for i, c := range g.contenders {
		fmt.Fprintf(w, "%.2f\t%.1f\t%d\t%s\t  %s\n", team.Median(rows[i].ratio), team.Median(rows[i].ns), rows[i].allocs, judged(c), c.name)
	}
	w.Flush()
}

// judged is what a contender admits at worst, and why if that is by design.
func judged(c contender) string {
	s := fmt.Sprintf("%.2f", c.worst())
	if c.calendar {
		s += "*"
	}
	return s
}
