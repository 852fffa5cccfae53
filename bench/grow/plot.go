package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/headroom-quota/headroom/internal/svg"
)

// The measures of the picture, in pixels.
const (
	wide, tall  = 860, 600
	panelWidth  = 330
	panelHeight = 180
	panelLeft   = 70
	panelTop    = 96
	panelRight  = panelLeft + panelWidth + 110 // the left side of the second column
	panelLower  = panelTop + panelHeight + 90
)

// The panels show one of the dimensions each. The others stand still here.
const (
	shownSeries  = "24 h"
	shownCallers = 16
	shownPools   = 100
	manyPools    = 10_000
)

// plot draws the figures.
func plot(all []figure) []byte {
	c := svg.New(wide, tall, "How the cost of a ledger grows", "Reservations a second by the number of pools, of callers and by the window, and the bytes of a pool. All scales are logarithmic.")
	c.Rect(0, 0, wide, tall, "page")
	c.Text(24, 30, "head", "How the cost of a ledger grows")
	for i, store := range storeNames {
		c.Rect(panelLeft+float64(i)*120, 44, 12, 12, class(i))
		c.Text(panelLeft+18+float64(i)*120, 55, "", store)
	}
	var pools, callers []point
	for _, n := range sizes {
		pools = append(pools, point{math.Log10(float64(n)), short(n)})
	}
	for _, n := range crowds {
		callers = append(callers, point{math.Log2(float64(n)), fmt.Sprint(n)})
	}
	var windows []point
	for i, s := range allSeries {
		windows = append(windows, point{float64(i), s.name})
	}
	rates := func(title string, left, top float64, x []point, value func(store string, i int) float64) {
		panel(c, left, top, title, x, 100, 10_000_000, value)
	}
	rates("reservations a second, by the number of pools", panelLeft, panelTop, pools, func(store string, i int) float64 {
		return lookup(all, store, shownSeries, sizes[i], shownCallers, perSecond)
	})
	rates("reservations a second, by callers", panelRight, panelTop, callers, func(store string, i int) float64 {
		return lookup(all, store, shownSeries, shownPools, crowds[i], perSecond)
	})
	rates("reservations a second, by window", panelLeft, panelLower, windows, func(store string, i int) float64 {
		return lookup(all, store, allSeries[i].name, manyPools, shownCallers, perSecond)
	})
	panel(c, panelRight, panelLower, "bytes of a pool, by window", windows, 100, 10_000, func(store string, i int) float64 {
		return bytesOf(all, store, allSeries[i].name)
	})
	c.Text(24, tall-14, "faint", fmt.Sprintf("Where it does not vary: windows of %s, %d callers; %d pools on the right, %d below.", shownSeries, shownCallers, shownPools, manyPools))
	return c.File()
}

func class(store int) string { return fmt.Sprintf("s%d", store+1) }

// point is a place on the horizontal axis.
type point struct {
	at   float64
	name string
}

// panel draws a line for each store. Both ends of the scale are powers of ten.
func panel(c *svg.Canvas, left, top float64, title string, x []point, low, high float64, value func(store string, i int) float64) {
	c.Text(left, top-12, "", title)
	down := func(v float64) float64 {
		return top + panelHeight*(math.Log10(high)-math.Log10(v))/(math.Log10(high)-math.Log10(low))
	}
	last := x[len(x)-1].at
	across := func(i int) float64 { return left + 14 + (panelWidth-28)*x[i].at/last }
	for tick := low; tick <= high; tick *= 10 {
		c.Line(left, down(tick), left+panelWidth, down(tick), "grid")
		c.Text(left-6, down(tick)+4, "end faint", short(int(tick)))
	}
	for i := range x {
		c.Text(across(i), top+panelHeight+18, "middle faint", x[i].name)
	}
	for s, store := range storeNames {
		var line []svg.Point
		for i := range x {
			v := value(store, i)
			if v == 0 {
				continue // it was not measured
			}
			p := svg.Point{X: across(i), Y: down(min(max(v, low), high))}
			line = append(line, p)
			c.Bar(p.X-3, p.Y-3, 6, 6, class(s), fmt.Sprintf("%s, %s: %s", store, x[i].name, thousands(v)))
		}
		if len(line) > 1 {
			c.Polyline(class(s)+" line", line...)
		}
	}
}

// bytesOf is what another pool takes.
func bytesOf(all []figure, store, series string) float64 {
	most := 0
	for i := range all {
		if f := &all[i]; f.store == store && f.series == series && f.measure == bytesAll {
			most = max(most, f.pools)
		}
	}
	if most <= 1 {
		return 0
	}
	one := lookup(all, store, series, 1, 0, bytesAll)
	return (lookup(all, store, series, most, 0, bytesAll) - one) / float64(most-1)
}

// short writes a round number briefly.
func short(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// thousands writes a number with separators, rounded to three digits.
func thousands(v float64) string {
	if v >= 1000 {
		unit := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/unit) * unit
	}
	digits := []byte(fmt.Sprintf("%.0f", v))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = slices.Insert(digits, i, ',')
	}
	return string(digits)
}
