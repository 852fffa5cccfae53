package book

import (
	"math"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Class is a kind of caller. The zero value is an ordinary caller.
type Class struct {
	KeepFree        int64  // units of each window's limit that the class leaves free
	KeepFreePercent int64  // the same as a percentage of the limit, rounded up
	UseHeadroom     bool   // the class may use the headroom
	Share           int64  // in percent: the part of the limit that it has at least while it waits
	Priority        int64  // what is no share of classes that wait is for the highest
	Outage          Policy // replaces the Outage of the method, unless it is ""
}

func (r *reader) class(name string, d *keys.Class) Class {
	c := Class{KeepFree: d.KeepFree.Units, KeepFreePercent: d.KeepFree.Percent, UseHeadroom: d.UseHeadroom, Share: percent(d.Share), Priority: d.Priority, Outage: Policy(d.Outage)}
	if c.UseHeadroom && c.KeepFree+c.KeepFreePercent > 0 {
		r.fault(r.blame(&d.UseHeadroom, &d.KeepFree), "class %q cannot both keep units free and use the headroom; choose one", name)
	}
	if c.Share+c.KeepFreePercent > 100 {
		r.fault(r.blame(&d.Share, &d.KeepFree), "class %q has a share of %d%%, but keeps all except %d%% free; lower one of them", name, c.Share, 100-c.KeepFreePercent)
	}
	return c
}

// badPercent says what is wrong with a percentage.
func badPercent(text string) string {
	number, is := strings.CutSuffix(text, "%")
	if _, err := strconv.ParseUint(number, 10, 8); !is || err != nil || len(number) > 2 {
		return "is no percentage; write it as 80%"
	}
	return ""
}

// percent is the value of a percentage that badPercent has checked; 0 if there is none.
func percent(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	return n
}

// share is a number of units, or a part in percent.
type share keys.Share

func (s *share) read(r *reader, f *field, t *tree) {
	if percent, ok := strings.CutSuffix(t.Text, "%"); ok && t.Kind == isText {
		s.Percent, _ = r.integer(&tree{Kind: isNumber, At: t.At, Text: percent}, f.key+" in percent", 0, 99)
	} else {
		s.Units, _ = r.integer(t, f.key, f.least, f.most)
	}
}

func (s *share) tree() *tree {
	switch {
	case s.Units != 0 && s.Percent != 0:
		return both("units", number(s.Units), "percent", number(s.Percent))
	case s.Units != 0:
		return number(s.Units)
	case s.Percent != 0:
		return text(strconv.FormatInt(s.Percent, 10) + "%")
	}
	return nil
}

// leavesSome checks that a class leaves itself at least a unit of every window.
func (r *reader) leavesSome(u *Upstream, class string, d *keys.Upstream) {
	c := u.Classes[class]
	if c.KeepFree == 0 && c.KeepFreePercent == 0 {
		return
	}
	keep := &d.Classes[class].KeepFree
	for _, pool := range r.names(&d.Pools) {
		if u.Pools[pool] == nil {
			continue
		}
		w, ok := tightest(c, u.Pools[pool].sets(u.kinds())...)
		if !ok || w.Limit(c) >= 1 {
			continue
		}
		p, orElse := d.Pools[pool], ""
		if c.KeepFree > 0 {
			orElse = " or write it in percent"
		}
		r.fault(r.blame(keep, &p.Quota, &p.Headroom, &p.Windows),
			"class %q keeps %s free of every window, but window %s of pool %q has a limit of %d: nothing would be left; lower keep_free%s",
			class, r.written(keep).Text, w.Spec, pool, w.Limit(Class{}), orElse)
	}
}

// tightest is the window with the lowest limit for a class, whatever account or key.
func tightest(c Class, sets ...[]Window) (Window, bool) {
	var tight Window
	limit := int64(math.MaxInt64)
	for _, windows := range sets {
		for _, w := range windows {
			if l := w.Limit(c); l < limit {
				tight, limit = w, l
			}
		}
	}
	return tight, limit < math.MaxInt64
}
