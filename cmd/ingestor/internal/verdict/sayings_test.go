package verdict_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/lifetest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// moment is more than the time between two beats of a daemon.
const moment = 11 * time.Second

// witness is a life with those who say how it is: one that writes, as a server does, and is there all the time;
// one that starts anew, as a command does; and one that does not write.
type witness struct {
	*lifetest.Life
	server *verdict.Reader
	silent map[string]time.Time // since when a job has had due times without a word of them
}

func newWitness(t *testing.T, seed uint64) *witness {
	kind := []lifetest.Kind{lifetest.Alone, lifetest.Fleet, lifetest.Alone, lifetest.Timer}[seed%4]
	l := lifetest.New(t, seed, kind)
	return &witness{Life: l, server: verdict.NewReader(&verdict.Options{Clock: l.Clock, Writes: true, Timeout: l.Patience()})}
}

func (w *witness) read(r *verdict.Reader) (*verdict.State, *verdict.Verdict) {
	r.Timeout = w.Patience()
	src := w.Sources()
	is := r.Read(w.Context(), &src)
	return is, is.Verdict()
}

func (w *witness) anew(writes bool) *verdict.Reader {
	return verdict.NewReader(&verdict.Options{Clock: w.Clock, Writes: writes})
}

// holds checks what is said against what happens then.
func (w *witness) holds() {
	is, v := w.read(w.server)
	w.Log("%s, %s: %s %v", v.Level, v.Word, v.Says, v.More)
	others := map[string]*verdict.Reader{"who starts anew": w.anew(true)}
	if w.Kind == lifetest.Alone && w.Alive && w.Shelf.Is() == lifetest.Well {
		others["who does not write, and reads what the daemon noted,"] = w.anew(false)
	}
	for who, r := range others {
		_, other := w.read(r)
		if w.Hung() { // the store that answers may also be late
			if other.Level == view.Good {
				w.Errorf("a store does not answer, and %s says %s: %s", who, other.Word, other.Says)
			}
		} else if other.Level != v.Level || other.Word != v.Word || other.Says.String() != v.Says.String() {
			w.Errorf("%s says %s: %s, and the server %s: %s", who, other.Word, other.Says, v.Word, v.Says)
		}
	}
	w.notSilent(is, v)
	next, name := time.Time{}, ""
	for _, j := range is.Jobs {
		if at, _ := j.Start(is.Now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next, name = at, j.Name
		}
	}
	knowable := w.Knowable()
	if name == "" {
		if v.Level == view.Good {
			w.Errorf("it said %q, and each job is paused", v.Says)
		}
		next = is.Now
	}
	before := w.lastRun("")
	wait := moment // until deferred work is resumed
	if w.Kind == lifetest.Timer {
		wait = lifetest.TimerEvery
	}
	w.PassTo(later(next, is.Now.Add(wait)))
	worked, did := false, false
	if w.Store.Is() == lifetest.Well && w.Shelf.Is() == lifetest.Well {
		run := w.lastRun(name)
		worked = run.ID > before.ID && !run.StartedAt.Before(next) && (view.Total(&run).Pages > 0 || run.State == catalog.Done)
		did = worked || w.Shifted() && w.hadDone(name, next)
	}
	if v.Level == view.Good && !did && knowable { // no false green
		w.Errorf("it said %q, and %s did no work", v.Says, name)
	}
	if w.Locked() && name != "" && v.Level != view.Bad {
		w.Errorf("it said %q, and a lock keeps all daemons from working", v.Says)
	}
	if v.Level == view.Bad && worked { // no false red
		w.Errorf("it said %q, and %s worked", v.Says, name)
	}
}

// hadDone reports whether a run has done the work of a time, which comes twice.
func (w *witness) hadDone(job string, at time.Time) bool {
	runs, err := w.Shelf.Catalog.Runs(w.Context(), catalog.RunsQuery{Job: job, Limit: 100})
	w.Must(err)
	return slices.ContainsFunc(runs, func(r catalog.RunRecord) bool {
		return r.Scheduled.Equal(at) && (r.State == catalog.Done || r.Error == ingest.DoneSince)
	})
}

// lastRun returns the last run of a job, or of all.
func (w *witness) lastRun(job string) (last catalog.RunRecord) {
	runs, err := w.Shelf.Catalog.Runs(w.Context(), catalog.RunsQuery{Job: job, Limit: 1, Made: true})
	w.Must(err)
	if len(runs) > 0 {
		last = runs[0]
	}
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// notSilent checks that no two due times in a row are without a run, a named skip or an alarm.
func (w *witness) notSilent(is *verdict.State, v *verdict.Verdict) {
	if w.Shelf.Is() != lifetest.Well {
		if v.Level == view.Good {
			w.Errorf("the catalog's disk is %s, and it says %q", w.Shelf.Is(), v.Says)
		}
		return
	}
	for _, j := range is.Jobs {
		runs, err := w.Shelf.Runs(w.Context(), catalog.RunsQuery{Job: j.Name, Limit: 1, Due: is.Now})
		w.Must(err)
		since := lifetest.Began
		if len(runs) > 0 {
			since = runs[0].Scheduled
		}
		if j.Last != nil { // deferred work that was resumed
			since = later(since, j.Last.StartedAt)
		}
		skips := j.Skips(since, is.Now.Add(-time.Minute))
		if skips.Times < 2 || j.Paused {
			continue
		}
		if v.Level != view.Bad && !named(v, j.Name) {
			w.Errorf("%s was due %d times since %s, and nothing says so: %q", j.Name, skips.Times, skips.First, all(v))
		}
	}
}

// named reports whether a verdict says of a job that it has not run.
func named(v *verdict.Verdict, job string) bool {
	return slices.ContainsFunc(all(v), func(s string) bool {
		return strings.Contains(s, job+" was due ") || strings.Contains(s, job) && strings.Contains(s, " not run yet") || strings.Contains(s, job+" is paused")
	})
}

// all returns everything that is said.
func all(v *verdict.Verdict) (all []string) {
	all = append(all, v.Word, v.Says.String())
	for _, m := range v.More {
		all = append(all, m.String())
	}
	return append(all, notesOf(v)...)
}

func notesOf(v *verdict.Verdict) (all []string) {
	for _, n := range v.Notes {
		all = append(all, n.Says.String())
	}
	return all
}

var times = regexp.MustCompile(`^(\d+) times since `)

// accounted checks, when all is well again, that each due time of the life has a run or is in a named skip.
func (w *witness) accounted() {
	w.Heal()
	w.Pass(3 * time.Hour)
	for _, j := range w.Jobs {
		runs, err := w.Shelf.Runs(w.Context(), catalog.RunsQuery{Job: j.Name, Limit: 10_000, Due: w.Clock.Now(), Bare: true})
		w.Must(err)
		if len(runs) == 0 { // it was not due, but when nobody was there
			continue
		}
		has, named := map[time.Time]bool{}, 0
		for _, r := range runs {
			if r.State != catalog.Skipped {
				has[r.Scheduled] = true
				continue
			}
			if r.Error == "" {
				w.Errorf("%s, due at %s, was skipped without a reason", j.Name, r.Scheduled)
			}
			n := 1
			if m := times.FindStringSubmatch(r.Error); m != nil {
				n, err = strconv.Atoi(m[1])
				w.Must(err)
			}
			named += n
		}
		first, last := runs[0].Scheduled, runs[0].Scheduled
		for at := range has {
			if at.Before(first) {
				first = at
			}
			last = later(last, at)
		}
		due := j.Skips(first.Add(-time.Second), last.Add(time.Second))
		if w.Shifted() { // some times came twice, and of others nobody knows
			continue
		}
		if due.Times != len(has)+named {
			w.Errorf("%s was due %d times from %s to %s: %d have runs, and %d were skipped by name", j.Name, due.Times, first, last, len(has), named)
		}
	}
}

// lives is a history of so many events.
func (w *witness) lives(events int) {
	w.Helper()
	defer func() {
		if w.Failed() {
			w.Tell()
		}
	}()
	for range events {
		w.Happen()
		w.Pass(time.Minute) // what happened is known by then
		if w.holds(); w.Failed() {
			return
		}
	}
	w.accounted()
}

// TestSayings: what is said of random histories is what happens then. A verdict that is good is followed by a
// run that works, and one that is bad by none; all readers agree; a daemon that is gone is missed within
// a minute; and each due time has a run, a named skip or an alarm.
func TestSayings(t *testing.T) {
	histories, events := 50, 7
	if os.Getenv("HEADROOM_SOAK") == "1" {
		histories, events = 2000, 12
	}
	var mu sync.Mutex
	moved, lived := map[string]int{}, 0
	t.Cleanup(func() {
		for _, name := range lifetest.Moves() {
			if moved[name] == 0 && lived == 2000 {
				t.Errorf("no history has: %s", name)
			}
		}
	})
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, seed)
			w.lives(events)
			mu.Lock()
			defer mu.Unlock()
			lived++
			for name, n := range w.Moved {
				moved[name] += n
			}
		})
	}
}

// TestTimesThatComeTwice: a timer makes no second run of a time that was recorded before the clock was set back, so
// no verdict names it as the next one.
func TestTimesThatComeTwice(t *testing.T) {
	w := newWitness(t, 3) // of the timer
	w.PassTo(lifetest.Began.Add(2 * time.Hour))
	w.Clock.Set(w.Clock.Now().Add(time.Hour + 7*time.Second))
	w.Pass(10 * time.Minute)
	w.Clock.Set(w.Clock.Now().Add(-time.Hour - 7*time.Second))
	w.Pass(time.Minute)
	before := w.lastRun("often")
	is, v := w.read(w.server)
	for _, j := range is.Jobs {
		if at, _ := j.Start(is.Now); j.Name == "often" && !at.After(before.Scheduled) {
			t.Errorf("at %s the next run of often is at %s, which had one: %q", is.Now, at, v.Says)
		}
	}
	w.holds()
}

// TestTimesThatADaemonRunsTwice: a clock was hours ahead and is set back. A daemon runs what is due by it now, so that is
// what a verdict names.
func TestTimesThatADaemonRunsTwice(t *testing.T) {
	w := newWitness(t, 0) // of a daemon
	w.PassTo(lifetest.Began.Add(6 * time.Hour))
	w.Clock.Set(w.Clock.Now().Add(-5*time.Hour - 7*time.Second))
	w.Pass(time.Minute)
	is, v := w.read(w.server)
	for _, j := range is.Jobs {
		if at, _ := j.Start(is.Now); j.Name == "trending" && at.Sub(is.Now) > time.Hour {
			t.Errorf("at %s the next run of trending is at %s: %q", is.Now, at, v.Says)
		}
	}
	before := w.lastRun("trending")
	w.Pass(time.Hour)
	if last := w.lastRun("trending"); last.ID == before.ID || view.Total(&last).Pages == 0 {
		t.Errorf("trending did no work in an hour: %+v", last)
	}
}

// TestSayingsOfEarlierSoaks repeats histories that found a defect: 1350 has a ledger that cannot be written, and a daemon
// that is gone. In 499, 1248 and 1912, all work waits when the upstream is down.
func TestSayingsOfEarlierSoaks(t *testing.T) {
	for seed, lacks := range map[uint64]string{499: "", 1248: "", 1912: "", 1015: "a person sets a limit", 1350: "a person sets a limit"} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWitness(t, seed)
			w.Lacks = lacks
			w.lives(12)
		})
	}
}
