package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// How a timeline reads when it fails.

const clockFormat = "2006-01-02T15:04:05.000000"

// tell writes a line of the timeline, which is shown if it fails.
func (tr *trial) tell(rt *rapid.T, format string, args ...any) {
	rt.Logf("%s  %s", tr.clock.Time().Format(clockFormat), fmt.Sprintf(format, args...))
}

// names returns the names of pools, with the units asked of each if units are given.
func names(pools []*modelPool, units ...int64) string {
	var all []string
	for i, p := range pools {
		name := p.pool.Name + p.pool.Key
		if i < len(units) {
			name = fmt.Sprintf("%d of %s", units[i], name)
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

func unitsOf(charges []quota.Charge) (units []int64) {
	for _, c := range charges {
		units = append(units, c.Units)
	}
	return units
}

func windowNames(limits []window.Limit) string {
	var all []string
	for _, l := range limits {
		all = append(all, fmt.Sprintf("%s (%d)", l.Name, l.Limit))
	}
	return strings.Join(all, ", ")
}

// when returns a word and a time, or "" for the zero time.
func when(word string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return word + t.UTC().Format(clockFormat)
}
