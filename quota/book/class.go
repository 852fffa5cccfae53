package book

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota/window"
)

// Class is a kind of caller. The zero value is an ordinary one.
type Class struct {
	KeepFree        int64  // units of each window's limit that it leaves free,
	KeepFreePercent int64  // or that part of the limit in percent, rounded up
	UseHeadroom     bool   // may draw on the headroom
	Outage          Policy // overrides the method's; "" leaves it
}

// class reads one class.
func (r *reader) class(e entry) Class {
	var c Class
	t := e.value
	if !r.sound(t, "class", fmt.Sprintf("class %q", e.key)) {
		return c
	}
	if k := t.get("keep_free"); k != nil {
		if percent, ok := strings.CutSuffix(k.text, "%"); ok && k.kind == isText {
			c.KeepFreePercent, _ = r.integer(&tree{kind: isNumber, at: k.at, text: percent}, "keep_free in percent", 0, 99)
		} else {
			c.KeepFree, _ = r.integer(k, "keep_free", 0, window.MaxUnits)
		}
	}
	if h := t.get("use_headroom"); h != nil && r.is(h, isFlag, "use_headroom") {
		c.UseHeadroom = h.text == "true"
		if c.UseHeadroom && (c.KeepFree > 0 || c.KeepFreePercent > 0) {
			r.fault(r.blame(h.at, t.get("keep_free").at), "class %q cannot both keep units free and use the headroom; choose one", e.key)
		}
	}
	c.Outage = r.policy(t.get("outage"), "outage", "")
	return c
}

// leavesSome checks that a class leaves itself at least a unit of every window.
func (r *reader) leavesSome(u *Upstream, e entry, pools *tree) {
	c := u.Classes[e.key]
	if c.KeepFree == 0 && c.KeepFreePercent == 0 {
		return
	}
	keep := e.value.get("keep_free")
	for _, p := range pools.keys() {
		a := u.Pools[p]
		if a == nil {
			continue
		}
		w, ok := tightest(u.Accounts, a, c)
		if !ok || w.Limit(c) >= 1 {
			continue
		}
		r.fault(r.blame(append([]place{keep.at}, grantPlaces(pools.get(p))...)...),
			"class %q keeps %s free of every window, but window %s of pool %q has a limit of %d: nothing would be left; lower keep_free%s",
			e.key, keep.text, w.Spec, p, w.Limit(Class{}), orPercent(c))
	}
}

func orPercent(c Class) string {
	if c.KeepFreePercent == 0 {
		return " or write it in percent"
	}
	return ""
}

// tightest is the window with the lowest limit for a class, whatever account.
func tightest(accounts []string, a *Pool, c Class) (Window, bool) {
	var tight Window
	limit := int64(math.MaxInt64)
	for _, account := range accounts {
		for _, w := range a.WindowsFor(account) {
			if l := w.Limit(c); l < limit {
				tight, limit = w, l
			}
		}
	}
	return tight, limit < math.MaxInt64
}

func (c Class) tree() *tree {
	t := &tree{kind: isMapping, flow: true}
	switch {
	case c.KeepFree > 0:
		t.add("keep_free", number(c.KeepFree))
	case c.KeepFreePercent > 0:
		t.add("keep_free", text(strconv.FormatInt(c.KeepFreePercent, 10)+"%"))
	}
	if c.UseHeadroom {
		t.add("use_headroom", &tree{kind: isFlag, text: "true"})
	}
	if c.Outage != "" {
		t.add("outage", text(string(c.Outage)))
	}
	return t
}
