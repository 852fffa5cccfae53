package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

func printRatios(out io.Writer, all []*result) {
	fmt.Fprint(out, "\nRatios to one AllowN of the same cost, round by round\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cost\tserver time\t(64)\tcalls/s\t(64)\tserver time vs log\t  \t")
	for i, cost := range costs {
		peer, log := find(all, gcra), find(all, entries)
		for _, r := range all {
			fmt.Fprintf(w, "%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t  %s\t\n", cost,
				ratio(r.timed[i][0].us, peer.timed[i][0].us), ratio(r.timed[i][1].us, peer.timed[i][1].us),
				ratio(r.timed[i][0].perSec, peer.timed[i][0].perSec), ratio(r.timed[i][1].perSec, peer.timed[i][1].perSec),
				ratio(r.timed[i][0].us, log.timed[i][0].us), r.name)
		}
	}
	w.Flush()
}

func printGoals(out io.Writer, all []*result) {
	fmt.Fprint(out, "\nGoals\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, g := range goals {
		got, ok := g.judge(all)
		mark := "MISSED"
		if ok {
			mark = "reached"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", mark, got, g.text)
	}
	w.Flush()
}

func printFigures(out io.Writer, all []*result) {
	fmt.Fprint(out, "\nFigures; server time in microseconds, memory of the pool's keys after 10,000 units in bytes\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cost\tserver us\t(64)\tcalls/s\t(64)\tpage\tspend\treceipts\t  \t")
	for i, cost := range costs {
		for _, r := range all {
			m := r.memory[i]
			fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%.0f\t%.0f\t%s\t%s\t%s\t  %s\t\n", cost,
				median(r.timed[i][0].us), median(r.timed[i][1].us), median(r.timed[i][0].perSec), median(r.timed[i][1].perSec),
				bytes(m.page), bytes(m.rest), bytes(m.receipts), r.name)
		}
	}
	w.Flush()
}

// bytes leaves nothing blank.
func bytes(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// A goal is what a contender has to reach.
type goal struct {
	text  string
	judge func(all []*result) (got string, reached bool)
}

var goals = []goal{
	{"server time of 1 window is at most 1.0 of AllowN's, cost 1", most(one, gcra, 0, 0, 1)},
	{"the same, cost 100", most(one, gcra, 1, 0, 1)},
	{"the same with 64 callers, cost 1", most(one, gcra, 0, 1, 1)},
	{"the same with 64 callers, cost 100", most(one, gcra, 1, 1, 1)},
	{"calls per second with 1 caller are at least 0.95 of AllowN's, cost 1", fast(0, 0)},
	{"the same, cost 100", fast(1, 0)},
	{"calls per second with 64 callers are at least 0.95 of AllowN's, cost 1", fast(0, 1)},
	{"the same, cost 100", fast(1, 1)},
	{"server time of 2 windows, receipt and spend is at most that of two AllowN, cost 1", most(full, gcra, 0, 0, 2)},
	{"the same, cost 100", most(full, gcra, 1, 0, 2)},
	{"the same with 64 callers, cost 1", most(full, gcra, 0, 1, 2)},
	{"the same with 64 callers, cost 100", most(full, gcra, 1, 1, 2)},
	{"server time of 1 window at cost 100 is at most 1/15 of the sorted-set log's", most(one, entries, 1, 0, 1.0/15)},
	{"server time of 2 windows, receipt and spend at cost 100 is at most 1/15 of the sorted-set log's", most(full, entries, 1, 0, 1.0/15)},
	{"server time of a refusal is at most 1.5 of a grant's, with 2 windows, cost 1", most(saturated, full, 0, 0, 1.5)},
	{"the same, cost 100", most(saturated, full, 1, 0, 1.5)},
	{"the same with 64 callers, cost 1", most(saturated, full, 0, 1, 1.5)},
	{"the same with 64 callers, cost 100", most(saturated, full, 1, 1, 1.5)},
	{"the same of 1 window, without receipt and spend, cost 1", most(oneFull, one, 0, 0, 1.5)},
	{"the same, cost 100", most(oneFull, one, 1, 0, 1.5)},
	{"server time of a key of a family is at most 1.2 of AllowN's, cost 1", most(client, gcra, 0, 0, 1.2)},
	{"the same, cost 100", most(client, gcra, 1, 0, 1.2)},
	{"the same with 64 callers, cost 1", most(client, gcra, 0, 1, 1.2)},
	{"the same with 64 callers, cost 100", most(client, gcra, 1, 1, 1.2)},
	{"the page of a saturated daily pool takes at most 8 KB", pageSize},
}

// most bounds a contender's server time by a peer's.
func most(name, peer string, cost, callers int, bound float64) func([]*result) (string, bool) {
	return func(all []*result) (string, bool) {
		r := ratio(find(all, name).timed[cost][callers].us, find(all, peer).timed[cost][callers].us)
		return fmt.Sprintf("%.3f", r), r <= bound
	}
}

// fast bounds the calls per second of one window by AllowN's.
func fast(cost, callers int) func([]*result) (string, bool) {
	return func(all []*result) (string, bool) {
		r := ratio(find(all, one).timed[cost][callers].perSec, find(all, gcra).timed[cost][callers].perSec)
		return fmt.Sprintf("%.3f", r), r >= 0.95
	}
}

func pageSize(all []*result) (string, bool) {
	page, log := find(all, saturated).memory[0].page, find(all, entries).memory[0].page
	return fmt.Sprintf("%d bytes, the log %d", page, log), page <= 8<<10
}

func find(all []*result, name string) *result {
	i := slices.IndexFunc(all, func(r *result) bool { return r.name == name })
	return all[i]
}

// ratio is the median of the ratios of the rounds.
func ratio(v, to []float64) float64 {
	rs := make([]float64, len(v))
	for i := range v {
		rs[i] = v[i] / to[i]
	}
	return median(rs)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
