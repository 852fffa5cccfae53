package redisstore

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/window"
)

// This file is what Go tells the scripts of a window. The arithmetic of each algorithm
// is in lua/. A new algorithm has its line in each function here, and nowhere else in
// this package.

// hasKey reports whether a window keeps its entries in a key of its own.
func hasKey(s window.Spec) bool { return s.Algorithm == window.Exact || s.InFlight() }

// steadyParameters returns the numbers of a window for the short script. It returns false
// if the window needs the long script.
func steadyParameters(s window.Spec) (x, y int64, ok bool) {
	switch s.Algorithm {
	case window.Sliding:
		return 0, slotSize(s), true
	case window.ByCalendar:
		return -1, max(s.Lag, 0).Microseconds(), true
	case window.Estimate:
		return s.Resolution().Microseconds(), int64(s.Per / s.Resolution()), true
	}
	return 0, 0, false
}

// parameters returns the numbers for the arithmetic of a window, in microseconds.
func parameters(s window.Spec) (x, y, lag int64) {
	switch s.Algorithm {
	case window.ByCalendar:
		return 0, 0, max(s.Lag, 0).Microseconds()
	case window.Estimate:
		return s.Per.Microseconds(), int64(s.Per / s.Resolution()), 0
	case window.Exact, window.InFlight:
		return s.Per.Microseconds(), 0, 0
	case window.Leaky:
		x, y = s.Drain()
		return x, y, 0
	}
	return s.Precision.Microseconds(), s.Buckets(), (s.Span() - s.Per - s.Precision).Microseconds()
}

// slotSize returns the number of bytes of a slot of a ring.
func slotSize(s window.Spec) int64 {
	if s.Wide {
		return 8
	}
	return 4
}

// code returns a number that identifies a window's layout: a hash, with the algorithm in
// the last three bits. It is exact in a double.
func code(w *window.Limit) int64 {
	kind := uint64(4)
	switch w.Spec.Algorithm {
	case window.Sliding:
		kind = 1
		if w.Spec.Wide {
			kind = 5
		}
	case window.ByCalendar:
		kind = 2
	case window.Exact, window.InFlight:
		kind = 3
	case window.Leaky:
		kind = 6
	}
	return int64(w.Hash>>16<<3 | kind)
}

// identity returns one number for a revision and its windows. It is exact in a double.
func identity(revision int64, windows []window.Limit) int64 {
	h := uint64(revision)
	for i := range windows {
		h = bits.RotateLeft64(h*0x9E3779B97F4A7C15, 29) ^ windows[i].Hash
	}
	return int64(h * 0x9E3779B97F4A7C15 >> 12)
}

// parseLayouts reads the layouts of a page, one a line.
func parseLayouts(text string) ([]window.Limit, error) {
	var limits []window.Limit
	for line := range strings.SplitSeq(text, "\n") {
		spec, err := window.ParseLayout(line)
		if err != nil {
			return nil, err
		}
		limits = append(limits, window.NewLimit(spec, 0))
	}
	return limits, nil
}

type bounds struct{ start, end window.Instant }

// periods returns the periods of a calendar around the instants in a.around: for each,
// its own period, the one before and the next two.
func (a *ask) periods(s window.Spec) []bounds {
	if !s.Calendar() {
		return nil
	}
	var all []bounds
	for _, at := range a.around {
		start, end := s.Bounds(at)
		before, _ := s.Bounds(start - 1)
		all = append(all, bounds{before, start}, bounds{start, end})
		for range 2 {
			start, end = s.Bounds(end)
			all = append(all, bounds{start, end})
		}
	}
	return distinct(all)
}

// distinct returns each of all once, in their order.
func distinct[T comparable](all []T) (some []T) {
	for _, one := range all {
		if !slices.Contains(some, one) {
			some = append(some, one)
		}
	}
	return some
}
