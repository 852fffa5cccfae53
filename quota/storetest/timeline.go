package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// timeline is a table of instants, actions and their outcomes.
type timeline struct {
	name    string
	windows []window.Limit            // of the pool "units"
	pools   map[string][]window.Limit // further pools
	rows    []row
}

type row struct {
	at   time.Duration // since the start
	do   action
	want string // see tell
}

type action func(r *rig) string

// run plays timelines, each on a fresh store.
func run(t *testing.T, h Harness, timelines []timeline) {
	t.Helper()
	for _, tl := range timelines {
		t.Run(tl.name, func(t *testing.T) {
			needClock(t, h)
			r := newRig(t, h, tl.windows...)
			for name, windows := range tl.pools {
				r.pools[name] = windows
			}
			for i, row := range tl.rows {
				r.setTime(row.at)
				if got := row.do(r); got != row.want {
					t.Fatalf("row %d, at %s: got %q, want %q", i, row.at, got, row.want)
				}
			}
		})
	}
}

// reserve takes units of the pool "units".
func reserve(units int64) action { return reserveAs("", units) }

// reserveAs takes units of the pool "units" under an id.
func reserveAs(id string, units int64) action {
	return func(r *rig) string {
		return tell(r.ask(quota.Request{ID: id, Charges: []quota.Charge{r.charge("units", units)}}))
	}
}

// reserveOf takes units of a pool.
func reserveOf(pool string, units int64) action {
	return func(r *rig) string {
		return tell(r.ask(quota.Request{Charges: []quota.Charge{r.charge(pool, units)}}))
	}
}

// reserveBoth takes units of the pools "units" and "searches", and says which
// pool and window decided.
func reserveBoth(id string, units, searches int64) action {
	return func(r *rig) string {
		v, err := r.ask(quota.Request{ID: id, Charges: []quota.Charge{r.charge("units", units), r.charge("searches", searches)}})
		if err != nil || v.Repeat {
			return tell(v, err)
		}
		return tell(v, err) + " of " + v.Pool.Name + " " + v.Window
	}
}

// decided adds the window that decided to an outcome.
func decided(do action) action {
	return func(r *rig) string { return do(r) + " of " + r.last.Window }
}

// settle settles the reservation of an id: the pool "units", then "searches".
func settle(id string, units ...int64) action {
	by := quota.Units{}
	for i, u := range units {
		by[[]string{"units", "searches"}[i]] = u
	}
	return settleTo(id, by)
}

// settleTo settles the reservation of an id, by pool.
func settleTo(id string, units quota.Units) action {
	return func(r *rig) string {
		s, err := r.s.Settle(context.Background(), r.tokens[id], units)
		return tellSettled(s, err)
	}
}

// tellSettled puts a settlement in words: "back 3, left 1, charged 2, again".
func tellSettled(s quota.Settlement, err error) string {
	if err != nil {
		return fault(err)
	}
	var said []string
	for _, part := range []struct {
		name  string
		units int64
	}{{"back", s.Back}, {"left", s.Left}, {"charged", s.Charged}} {
		if part.units != 0 {
			said = append(said, fmt.Sprintf("%s %d", part.name, part.units))
		}
	}
	if len(said) == 0 {
		said = []string{"nothing"}
	}
	if s.Repeat {
		said = append(said, "again")
	}
	return strings.Join(said, ", ")
}

// record charges units that are already spent.
func record(units int64) action { return recordOf("", units, nil) }

// recordAt charges units that were spent at a time after the start.
func recordAt(at time.Duration, units int64) action { return recordOf("", units, &at) }

func recordOf(id string, units int64, at *time.Duration) action {
	return func(r *rig) string {
		req := quota.Request{ID: id, Charges: []quota.Charge{r.charge("units", units)}}
		if at != nil {
			req.At = start.Add(*at)
		}
		_, err := r.s.Record(context.Background(), req)
		return fault(err)
	}
}

// blockFor shuts pools for a duration.
func blockFor(d time.Duration, pools ...string) action {
	return blocks(quota.BlockRequest{For: d, Reason: "the upstream said no"}, pools)
}

// blockUntil shuts pools until a time after the start.
func blockUntil(d time.Duration, pools ...string) action {
	return blocks(quota.BlockRequest{Until: start.Add(d), Reason: "the upstream said no"}, pools)
}

// open opens pools.
func open(pools ...string) action { return blocks(quota.BlockRequest{Open: true}, pools) }

func blocks(b quota.BlockRequest, pools []string) action {
	return func(r *rig) string {
		b := b
		for _, p := range pools {
			b.Charges = append(b.Charges, r.charge(p, 0))
		}
		return fault(r.s.Block(context.Background(), b))
	}
}

// looks says what the windows of pools have used: "5, 5; 2".
func looks(pools ...string) action {
	return func(r *rig) string {
		var pages []string
		for _, p := range r.look(pools...) {
			var used []string
			for _, w := range p.Windows {
				used = append(used, fmt.Sprint(w.Used))
			}
			pages = append(pages, strings.Join(used, ", "))
		}
		return strings.Join(pages, "; ")
	}
}
