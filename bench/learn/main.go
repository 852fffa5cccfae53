// Command learn compares senders that do not know the limit of an upstream: exponential backoff,
// shared CUBIC and shared AIMD, the rule of package pace, and one that is told the limit. It runs
// 750 cases on a simulated clock, judges the rule by its bars, and lists each case that
// misses them.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
)

func main() {
	all := flag.Bool("all", false, "run all 750 cases; without it, each fifth of those with a step and of the others")
	seed := flag.Uint64("seed", 1000, "which calls of others and which latencies; the rule was tuned with seeds below 100")
	only := flag.String("only", "", "only senders of these names, with commas; the told one always runs if its yield is a bar")
	kind := flag.String("kind", "", "only cases whose text has these words")
	flag.Parse()
	cases := trials()
	if !*all {
		cases = sample(cases)
	}
	cases = slices.DeleteFunc(cases, func(c *trial) bool { return !strings.Contains(c.String(), *kind) })
	report(os.Stdout, compare(cases, *seed, *only))
}

// sample takes a fifth of the cases, in which each kind, window, shape and header still occurs.
func sample(all []*trial) (some []*trial) {
	for i, c := range all {
		if (i+i/30)%5 == 0 {
			some = append(some, c)
		}
	}
	return some
}

// compared is a case with the result of each sender. Told is the one that is told the limit, with
// its best margin.
type compared struct {
	*trial
	by   map[string]result
	told *result // nil: none has at most 1% refused
}

// margins are the shares of a limit that the told sender tries.
var margins = map[bool][]float64{false: {1, .97, .9, .8}, true: {.7, .66, .62, .58, .52, .45, .35, .25}}

func compare(cases []*trial, seed uint64, only string) []compared {
	results := make([]compared, len(cases))
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				results[i] = compareOne(cases[i], seed, only)
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	group.Wait()
	return results
}

func compareOne(c *trial, seed uint64, only string) compared {
	r := compared{trial: c, by: make(map[string]result)}
	for _, s := range senders {
		if only == "" || slices.Contains(strings.Split(only, ","), s.name) {
			r.by[s.name] = run(c, seed, s.make(c, rand.New(rand.NewPCG(seed, 7))))
		}
	}
	for _, share := range margins[c.foreign > 0] {
		got := run(c, seed, newTold(c, share))
		if got.refused <= .01 && (r.told == nil || got.yield > r.told.yield) {
			r.told = &got
		}
	}
	return r
}

// verdict is how the rule did in a case.
type verdict struct {
	bar    float64 // the least yield; 0: there is none
	yield  float64
	misses []string
}

// judge judges the rule by the bars of the design. From 1,000 calls per window on, at most 0.5% may
// be refused; below that, at most 25 calls for each change of the limit are as good.
func judge(c *compared) verdict {
	got := c.by["pace"]
	v := verdict{bar: .95, yield: got.yield}
	per := c.span.per
	switch {
	case c.foreign > 0 && c.told == nil:
		v.bar = 0
	case c.foreign > 0:
		v.bar = .95 * c.told.yield
	case c.kind == "in flight":
		v.bar = .92
	case per.Seconds() == 1:
		v.bar = .9
	case c.kind == "sliding" && per.Hours() >= 1:
		v.bar, v.yield = .85, got.late
	}
	if v.yield < v.bar {
		v.misses = append(v.misses, fmt.Sprintf("yield %.3f, bar %.3f", v.yield, v.bar))
	}
	changes := 1
	if c.shape.change > 0 {
		changes++
	}
	most := .005
	if c.foreign > 0 {
		most = .01
	}
	few := c.kind == "in flight" || c.base < 1000
	if v.bar > 0 && got.refused > most && !(few && got.no <= 25*changes) {
		v.misses = append(v.misses, fmt.Sprintf("%.2f%% refused, bar %.1f%%", 100*got.refused, 100*most))
	}
	if c.shape.change > 0 && v.bar > 0 {
		bar := max(3*c.per, 180)
		if c.shape.factor(1) > 1 {
			bar = max(600, c.per/10)
		}
		if c.foreign == 0 && (got.found < 0 || got.found > max(bar, float64(c.width())/parts*c.length)) {
			v.misses = append(v.misses, fmt.Sprintf("found after %.0f s, bar %.0f s", got.found, bar))
		}
	}
	return v
}

func report(out *os.File, all []compared) {
	names := []string{}
	for _, s := range senders {
		if _, ran := all[0].by[s.name]; ran {
			names = append(names, s.name)
		}
	}
	fmt.Fprintf(out, "%d cases. Median yield, and median share refused in percent; the last columns are those of the told sender and how many reach their bars.\n", len(all))
	for _, foreign := range []float64{0, .3} {
		fmt.Fprintf(out, "\nothers spend %.0f%%\n%-18s", 100*foreign, "")
		for _, n := range names {
			fmt.Fprintf(out, "%16s", n)
		}
		fmt.Fprintf(out, "%16s%12s\n", "told", "bars")
		groups := map[string][]*compared{}
		order := []string{}
		for i := range all {
			if c := &all[i]; c.foreign == foreign {
				g := c.kind
				if c.kind != "in flight" {
					g += " " + c.span.per.String()
				}
				if groups[g] == nil {
					order = append(order, g)
				}
				groups[g] = append(groups[g], c)
				groups["all"] = append(groups["all"], c)
			}
		}
		for _, g := range append(order, "all") {
			fmt.Fprintf(out, "%-18s", g)
			for _, n := range names {
				y, r := medians(groups[g], func(c *compared) *result { x := c.by[n]; return &x })
				fmt.Fprintf(out, "%8.3f%8.2f", y, 100*r)
			}
			y, r := medians(groups[g], func(c *compared) *result { return c.told })
			fmt.Fprintf(out, "%8.3f%8.2f", y, 100*r)
			reach, barred := 0, 0
			for _, c := range groups[g] {
				if v := judge(c); v.bar > 0 {
					barred++
					if v.misses == nil {
						reach++
					}
				}
			}
			fmt.Fprintf(out, "%6d of %2d\n", reach, barred)
		}
	}
	survivors(out, all)
}

func survivors(out *os.File, all []compared) {
	missed, barred, without := []string{}, 0, 0
	for i := range all {
		c := &all[i]
		v := judge(c)
		if v.bar == 0 {
			without++
			continue
		}
		if barred++; v.misses != nil {
			missed = append(missed, fmt.Sprintf("%s  %s\n%14s%s", c, strings.Join(v.misses, "; "), "", why(c)))
		}
	}
	fmt.Fprintf(out, "\n%d of %d cases reach their bars (%.1f%%); %d have none, because the told sender has none either.\nBelow their bars:\n",
		barred-len(missed), barred, 100*float64(barred-len(missed))/float64(max(barred, 1)), without)
	for _, line := range missed {
		fmt.Fprintln(out, line)
	}
}

// why says why the rule is known to be weak in a case.
func why(c *compared) string {
	up := c.shape.change > 0 && c.shape.factor(1) > 1
	moves := c.shape.change == 0 && c.shape.name != "steady"
	switch {
	case c.kind == "in flight" && c.foreign > 0:
		return "the others fill the places by chance: places are tried only when the rate has fallen by a third, and after a step down too many are refused"
	case c.kind == "in flight":
		return "two refusals must show that calls in flight are limited; until then a pace leaves places empty"
	case c.per == 1 && c.foreign > 0:
		return "so few calls fit in a second that the others' chance fills it; the told sender knows when the window begins, or what it has left"
	case c.per == 1:
		return "calls arrive up to 75 ms early or late, which is much of a window of a second"
	case up && (c.kind == "gcra" || c.kind == "bucket"):
		return "the rate rises after 420 calls or more, or more would be refused: at this limit they take longer than the bar"
	case c.kind == "sliding" && c.per >= 3600:
		return "a window gives back at the rate of one length ago: the first one was filled in minutes, and few episodes have followed"
	case c.foreign > 0 && (up || moves):
		return "the others' share varies and the limit moves: the rate follows over some episodes, the told sender at once"
	case up:
		return "the rate rises slowly, and the episode that ends this was measured over the time before, too"
	case moves:
		return "the limit moves for as long as the rate needs to follow"
	case c.shape.change > 0:
		return "the rate falls over some episodes, each of which is a stop"
	}
	return "the rate stays below the limit by what keeps refusals rare"
}

func medians(all []*compared, of func(*compared) *result) (yield, refused float64) {
	var ys, rs []float64
	for _, c := range all {
		if r := of(c); r != nil {
			ys, rs = append(ys, r.yield), append(rs, r.refused)
		}
	}
	return median(ys), median(rs)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sort.Float64s(all)
	return all[len(all)/2]
}
