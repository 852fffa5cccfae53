package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
)

// The part of README.md between these lines is made from the figures.
const (
	begins = "<!-- made by go run ./grow -draw -->\n"
	ends   = "<!-- end -->\n"
)

// insert puts the tables into the page at path, if it has a place for them.
func insert(path, tables string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(page, []byte(begins))
	_, after, closed := bytes.Cut(rest, []byte(ends))
	if !found || !closed {
		return fmt.Errorf("%s has no place for the tables: the lines %q and %q", path, begins, ends)
	}
	return os.WriteFile(path, []byte(string(before)+begins+tables+ends+string(after)), 0o600)
}

// report is the tables of the figures, and what follows from them.
func report(all []figure) string {
	var b strings.Builder
	row := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

	fmt.Fprintf(&b, "\nReservations a second by the number of pools, with %d callers. The first column of figures is one pool. The others are\nratios to one pool with a window of %s, in the same rounds.\n\n", shownCallers, shownSeries)
	head := []string{"store", "window", "a second, 1 pool"}
	for _, n := range sizes[1:] {
		head = append(head, thousands(float64(n)))
	}
	row(head...)
	row("---", "---", "---:", "---:", "---:", "---:", "---:")
	for _, store := range storeNames {
		for _, s := range allSeries {
			cells := []string{store, s.name, orNone(lookup(all, store, s.name, 1, shownCallers, perSecond))}
			for _, n := range sizes[1:] {
				cells = append(cells, times(ratio(all, store, s.name, n, shownCallers)))
			}
			row(cells...)
		}
	}

	fmt.Fprintf(&b, "\nThe same by the number of callers, with %d pools and a window of %s, as ratios to one caller:\n\n", shownPools, shownSeries)
	row("store", "a second, 1 caller", "4", "16", "64")
	row("---", "---:", "---:", "---:", "---:")
	for _, store := range storeNames {
		one := lookup(all, store, shownSeries, shownPools, 1, perSecond)
		cells := []string{store, orNone(one)}
		for _, callers := range crowds[1:] {
			cells = append(cells, times(lookup(all, store, shownSeries, shownPools, callers, perSecond)/one))
		}
		row(cells...)
	}

	b.WriteString("\nBytes of one more pool, of one more reservation (its receipt and its row), and of a pool in the memory of the process:\n\n")
	row("store", "1 min", "24 h", "30 days", "client", "reservation", "in the process")
	row("---", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, store := range storeNames {
		cells := []string{store}
		for _, s := range allSeries {
			cells = append(cells, orNone(bytesOf(all, store, s.name)))
		}
		row(append(cells, orNone(lookup(all, store, shownSeries, 1, 0, bytesCall)), orNone(inProcess(all, store)))...)
	}
	b.WriteString(paper(all))
	b.WriteString("\n")
	return b.String()
}

// inProcess is what the process keeps of a pool.
func inProcess(all []figure, store string) float64 {
	return lookup(all, store, shownSeries, manyPools, 0, bytesProcess) / manyPools
}

func times(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return "" // it was not measured
	}
	return fmt.Sprintf("%.2f", v)
}

func orNone(v float64) string {
	if v <= 0 {
		return ""
	}
	return thousands(v)
}

// size writes bytes for people.
func size(v float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if v < 1000 {
			return fmt.Sprintf("%.3g %s", v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.3g TB", v)
}
