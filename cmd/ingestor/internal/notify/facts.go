package notify

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

const (
	shortest = time.Hour // of a window that is told of
	slack    = 5         // percent of a limit that must come back before it is over
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

// find finds the facts that people are told of. What could not be read leaves open what was known of it.
func find(is *verdict.State, folders []string, shares []int) *found {
	f := &found{known: map[string]bool{}}
	f.ledger(is, shares)
	if is.Unread == nil {
		for _, j := range is.Jobs {
			f.job(j)
		}
		f.daemon(is)
	}
	f.fleet(is)
	for _, folder := range folders {
		f.known[diskKey(folder)] = true
	}
	for _, d := range is.Disks {
		f.add(Disk, 0, diskKey(d.Folder), "On %s: %s", here(), d)
	}
	return f
}

func diskKey(folder string) string { return "disk/" + here() + ":" + folder }

func (f *found) ledger(is *verdict.State, shares []int) {
	key := "ledger/" + here() // another machine may reach it
	f.known[key] = true
	lost, forgot := errors.AsType[*quota.ForgottenError](is.Outage)
	if forgot || is.Outage == nil { // else it may have come back meanwhile
		f.known["lost/"+here()] = true
	}
	switch {
	case forgot:
		f.add(Ledger, 0, "lost/"+here(), "%v", lost)
	case is.Outage != nil:
		f.add(Ledger, 0, key, "The ledger cannot be read, so calls are refused or counted later: %v", is.Outage)
	case is.Stuck != nil:
		f.add(Ledger, 0, key, "The ledger cannot be written, so calls are refused or counted later: %v", is.Stuck)
	}
	least := cheapest(is.Book)
	for i := range is.Pools {
		u := &is.Pools[i]
		if !verdict.Known(u) {
			continue
		}
		pool := u.Pool.String()
		f.known["blocked/"+pool], f.known["gone/"+pool] = true, true
		steps, rate := is.Book.StepsOf(u.Pool.Upstream, u.Pool.Name)
		for _, share := range shares {
			f.known[shareKey(pool, share)] = true
		}
		for i := range steps {
			f.known[stepKey(pool, &steps[i])] = true
		}
		if u.Blocked.After(is.Now) {
			who := "hand of a person"
			if u.BlockedBy == quota.BlockedByUpstream {
				who = "upstream"
			}
			f.add(Blocked, 0, "blocked/"+pool, "%s is blocked until %s by the %s: %s", pool, moment(u.Blocked), who, u.Reason)
		}
		w := fullest(u)
		if w == nil || rate { // it fills up again and again
			continue
		}
		if enough := max(least[pool], 1); w.Remaining < enough+w.Limit*slack/100 {
			f.add(Gone, 0, "gone/"+pool, "%s is used up: %s of %s are left of %s. Units come back at %s", pool, view.Amount(pool, w.Remaining), view.Amount(pool, w.Limit), w.Window, moment(w.NextAt))
			f.last().Lasts = w.Remaining >= enough
		}
		for _, share := range shares {
			f.share(pool, w, share, share, shareKey(pool, share), "")
		}
		for i := range steps {
			f.share(pool, w, int(steps[i].At), 0, stepKey(pool, &steps[i]), "; "+steps[i].String())
		}
	}
}

// share finds that a part of a window is used. Of is what targets choose by; zero is for all of them.
func (f *found) share(pool string, w *quota.WindowUsage, share, of int, key, more string) {
	if w.Used*100 < w.Limit*int64(share-slack) {
		return
	}
	f.add(Share, of, key, "%s: %d%% of %s is used, %s of %s%s", pool, w.Used*100/w.Limit, w.Window, view.Amount(pool, w.Used), view.Amount(pool, w.Limit), more)
	f.last().Lasts = w.Used*100 < w.Limit*int64(share)
}

func stepKey(pool string, step *book.Step) string { return fmt.Sprintf("step/%s/%d", pool, step.At) }

func (f *found) last() *Fact { return &f.facts[len(f.facts)-1] }

func shareKey(pool string, share int) string { return fmt.Sprintf("share/%s/%d", pool, share) }

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

// job looks at the last run of a job that ended, and at the one that is due.
func (f *found) job(j *verdict.Job) {
	f.known["missed/"+j.Name] = true
	if !j.Missed.IsZero() && j.Last != nil { // else it may be new
		f.add(Missed, 0, "missed/"+j.Name, "%s was due at %s, and no run has started. Check that ingestor run, or its timer, is up", j.Name, moment(j.Missed))
	}
	if j.Last == nil || j.Last.State == catalog.Running {
		return
	}
	f.known["run/"+j.Name] = true
	if j.Last.State == catalog.Failed {
		f.add(Run, 0, "run/"+j.Name, "The last run of %s failed: %s", j.Name, view.Why(j.Last))
	}
}

// daemon looks for a daemon that is gone. Those of a fleet have a table.
func (f *found) daemon(is *verdict.State) {
	if is.Fleet != nil || is.Unseen != nil {
		return
	}
	f.known["daemon"] = true
	if gone := is.Gone(); gone != nil {
		how := "has been silent since"
		if gone.Ended {
			how = "ended at"
		}
		f.add(Daemon, 0, "daemon", "The daemon on %s (process %d) %s %s, and nobody runs the jobs. To start one: ingestor run%s", gone.Host, gone.PID, how, moment(gone.At), is.Typed)
	}
}

// fleet looks for what stops the daemons.
func (f *found) fleet(is *verdict.State) {
	var locks []fleet.Lock
	if locked, some := errors.AsType[*fleet.LockedError](is.Unseen); some { // the rest cannot be read
		f.known["lock/"] = true
		locks = locked.Locks
	}
	if is.Fleet != nil {
		f.known["lock/"], f.known["daemon/"], f.known["idle/"] = true, true, true
		locks = is.Fleet.Locks
		for i := range is.Fleet.Daemons {
			switch d := &is.Fleet.Daemons[i]; {
			case !d.Alive():
				f.add(Daemon, 0, "daemon/"+d.ID, "The daemon %s has been silent since %s. Look whether its machine is up: ingestor fleet%s", d.ID, moment(d.SeenAt), is.Typed)
			case d.Idle():
				f.add(Daemon, 0, "idle/"+d.ID, "The daemon %s does no work: %s", d.ID, d.State)
			}
		}
	}
	for _, l := range locks {
		f.add(Daemon, 0, "lock/"+l.Table, "%s", l)
	}
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
