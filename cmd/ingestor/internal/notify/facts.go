package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

const (
	shortest = time.Hour // of a window that is told of
	slack    = 5         // percent of a limit that must come back before it is over
	fewBytes = 256 << 20 // that a disk must have left
)

// found are facts, and what else would be known.
type found struct {
	facts []Fact
	known map[string]bool // keys, and prefixes that end with /
}

func (f *found) add(kind Kind, share int, key, format string, args ...any) {
	f.facts = append(f.facts, Fact{Key: key, Kind: kind, Share: share, Text: fmt.Sprintf(format, args...)})
}

// knows reports whether a fact with this key would have been found.
func (f *found) knows(key string) bool {
	if f.known[key] {
		return true
	}
	first, _, _ := strings.Cut(key, "/")
	return f.known[first+"/"]
}

// look finds the facts of now. What cannot be read leaves open what was known of it.
func look(ctx context.Context, src *view.Sources, state string, shares []int, now time.Time) *found {
	f := &found{known: map[string]bool{}}
	f.ledger(ctx, src, shares, now)
	for _, j := range src.Jobs {
		f.job(ctx, src, j, now)
	}
	f.fleet(ctx, src)
	f.disk(state)
	return f
}

func (f *found) ledger(ctx context.Context, src *view.Sources, shares []int, now time.Time) {
	all, err := src.Ledger.View().Usage(ctx, "", "")
	if ctx.Err() != nil {
		return
	}
	key := "ledger/" + here() // another machine may reach it
	f.known[key] = true
	if err != nil {
		what := "The ledger cannot be read, so calls are refused or counted later: %v"
		if _, lost := errors.AsType[*quota.ForgottenError](err); lost {
			what = "%v"
		}
		f.add(Ledger, 0, key, what, err)
		return
	}
	least := cheapest(src.Ledger.Book())
	for i := range all {
		u := &all[i]
		pool := u.Pool.String()
		f.known["blocked/"+pool], f.known["gone/"+pool] = true, true
		for _, share := range shares {
			f.known[shareKey(pool, share)] = true
		}
		if u.Blocked.After(now) {
			f.add(Blocked, 0, "blocked/"+pool, "%s is blocked until %s by the %s: %s", pool, moment(u.Blocked), who(u), u.Reason)
		}
		w := fullest(u)
		if w == nil {
			continue
		}
		if enough := max(least[pool], 1); w.Remaining < enough+w.Limit*slack/100 {
			f.add(Gone, 0, "gone/"+pool, "%s is used up: %s of %s are left of %s. Units come back at %s", pool, view.Number(w.Remaining), view.Number(w.Limit), w.Window, moment(w.NextAt))
			f.last().Lasts = w.Remaining >= enough
		}
		for _, share := range shares {
			if w.Used*100 >= w.Limit*int64(share-slack) {
				f.add(Share, share, shareKey(pool, share), "%s: %d%% of %s is used, %s of %s", pool, w.Used*100/w.Limit, w.Window, view.Number(w.Used), view.Number(w.Limit))
				f.last().Lasts = w.Used*100 < w.Limit*int64(share)
			}
		}
	}
}

// last returns the fact that was added last.
func (f *found) last() *Fact { return &f.facts[len(f.facts)-1] }

func shareKey(pool string, share int) string { return fmt.Sprintf("share/%s/%d", pool, share) }

// here names this machine.
func here() string {
	host, _ := os.Hostname()
	return host
}

// fullest returns the window of a pool that is used most, or nil. Short ones fill up again and again.
func fullest(u *quota.Usage) (most *quota.WindowUsage) {
	part := func(w *quota.WindowUsage) float64 { return float64(w.Used) / float64(w.Limit) }
	for i := range u.Allowances {
		w := &u.Allowances[i]
		if !w.Spec.InFlight() && w.Spec.Length() >= shortest && w.Limit > 0 && (most == nil || part(w) > part(most)) {
			most = w
		}
	}
	return most
}

// cheapest returns the least that a call charges to each pool.
func cheapest(b *quota.Book) map[string]int64 {
	least := map[string]int64{}
	for _, u := range b.Upstreams {
		for _, m := range u.Methods {
			for name, units := range m.Charges {
				for _, account := range u.Accounts {
					pool := quota.Pool{Upstream: u.Name, Account: account, Name: name}.String()
					if units > 0 && (least[pool] == 0 || units < least[pool]) {
						least[pool] = units
					}
				}
			}
		}
	}
	return least
}

func who(u *quota.Usage) string {
	if u.BlockedBy == quota.BlockedByUpstream {
		return "upstream"
	}
	return "hand of a person"
}

// job looks at the last run of a job, and at the one that is due.
func (f *found) job(ctx context.Context, src *view.Sources, j *ingest.Job, now time.Time) {
	runs, err := src.Catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 2, Made: true, Bare: true})
	if err != nil {
		return
	}
	f.known["run/"+j.Name] = true
	i := slices.IndexFunc(runs, func(r catalog.RunRecord) bool { return r.State != catalog.Running })
	if i >= 0 && runs[i].State == catalog.Failed {
		whole, err := src.Catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Before: runs[i].ID + 1, Limit: 1})
		if err == nil && len(whole) == 1 {
			runs[i] = whole[0]
		}
		f.add(Run, 0, "run/"+j.Name, "The last run of %s failed: %s", j.Name, view.Why(&runs[i]))
	}
	why, due, err := src.Runner.Due(ctx, j)
	if err != nil {
		return
	}
	f.known["missed/"+j.Name] = true
	if due && len(runs) > 0 && view.Missed(j, &runs[0], why.Scheduled, now) {
		f.add(Missed, 0, "missed/"+j.Name, "%s was due at %s, and no run has started. Check that ingestor run, or its timer, is up", j.Name, moment(why.Scheduled))
	}
}

// fleet looks for what stops the daemons.
func (f *found) fleet(ctx context.Context, src *view.Sources) {
	if src.Fleet == nil {
		return
	}
	locks, err := src.Fleet.Locks(ctx)
	if err != nil {
		return
	}
	f.known["lock/"] = true
	for _, l := range locks {
		f.add(Daemon, 0, "lock/"+l.Table, "%s", l)
	}
	daemons, err := src.Fleet.Daemons(ctx)
	if err != nil {
		return
	}
	f.known["daemon/"] = true
	for i := range daemons {
		if d := &daemons[i]; !d.Alive() {
			f.add(Daemon, 0, "daemon/"+d.ID, "The daemon %s has been silent since %s. Look whether its machine is up: ingestor fleet", d.ID, moment(d.SeenAt))
		}
	}
}

// disk looks at the room for the files of this machine.
func (f *found) disk(state string) {
	key := "disk/" + here() + ":" + state
	for {
		left, known := sqlitefile.Room(state)
		if known {
			f.known[key] = true
			if left < fewBytes {
				f.add(Disk, 0, key, "The disk of %s on %s has only %d MiB left", state, here(), left>>20)
			}
			return
		}
		above := filepath.Dir(state) // it is made when it is needed
		if above == state {
			return
		}
		state = above
	}
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
