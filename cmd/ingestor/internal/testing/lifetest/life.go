// Package lifetest has random histories of jobs, a daemon, a ledger and a catalog on a simulated clock, with real
// files. Tests compare what is said of them with what happens then.
package lifetest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// Book is the price book of a life: a quota that is used up soon.
const Book = "extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {quota: 45, headroom: 10}}}}\n"

// Began is when a life begins.
var Began = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// Units is the pool that the jobs of a life charge.
var Units = quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}

// Kind says who runs the jobs.
type Kind string

// The kinds of lives.
const (
	Alone Kind = "daemon" // which notes in the catalog that it is alive
	Fleet Kind = "fleet"  // daemons that note it in a table, and jobs that a person may pause
	Timer Kind = "timer"  // ingestor run --once --due, every five minutes
)

// TimerEvery is how often the timer starts the program.
const TimerEvery = 5 * time.Minute

// Life is a history of who runs jobs, a ledger and a catalog, and of what is said of them.
type Life struct {
	testing.TB
	Kind   Kind
	Rand   *rand.Rand
	Clock  *quota.SimClock
	Dir    string // of ledger.db and catalog.db
	Store  *Store
	Shelf  *Shelf
	Ledger *quota.Ledger
	Runner *ingest.Runner
	Jobs   []*ingest.Job
	Alive  bool // whether the daemon, or the timer, is there
	Said   []string
	Moved  map[string]int // how often each move was made
	Lacks  string         // a move that never comes, so that a history is that of an earlier soak

	config   *ingest.Config
	address  string // of the upstream
	close    func()
	calls    atomic.Int64 // that the upstream got
	sim      *youtubesim.Sim
	upstream youtubesim.Effect // what is wrong with it
	since    int64             // calls that it had got before that
	backup   string            // of the ledger
	seen     time.Time         // when the daemon of a fleet was
	ended    bool              // whether it ended by itself
	pauses   []fleet.Pause
	locks    []fleet.Lock // that keep the daemon of a fleet from working
	died     time.Time    // when the timer was
	shifted  bool         // whether the clock was set
	begun    time.Time
}

// New returns a life. It is the same for the same seed.
func New(t testing.TB, seed uint64, kind Kind) *Life {
	t.Helper()
	l := &Life{
		TB: t, Kind: kind, Rand: rand.New(rand.NewPCG(seed, 28)), Clock: quota.NewSimClock(Began), Dir: t.TempDir(),
		Alive: true, Moved: map[string]int{}, seen: Began, begun: Began,
	}
	kept, err := catalog.Open(t.Context(), filepath.Join(l.Dir, "catalog.db"), &catalog.Options{Clock: l.Clock})
	l.Must(err)
	t.Cleanup(func() { _ = kept.Close() })
	l.Shelf = &Shelf{Catalog: kept}
	t.Cleanup(func() { l.close() })
	t.Cleanup(func() { l.Store.Set(Well); l.Shelf.Set(Well) }) // nobody waits for ever
	config := Config()
	for _, fault := range config.Prepare() {
		t.Fatal(fault)
	}
	l.sim = youtubesim.New(&youtubesim.Options{Seed: 1, Clock: l.Clock.Now})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.calls.Add(1)
		few := r.URL.Query() // a page of three videos says as much as one of fifty
		few.Set("maxResults", "3")
		r.URL.RawQuery = few.Encode()
		l.sim.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	l.config, l.address, l.Jobs = config, server.Listener.Addr().String(), config.List()
	l.openLedger()
	l.Beat()
	return l
}

// Config returns the jobs of a life.
func Config() *ingest.Config {
	return &ingest.Config{Regions: []string{"US"}, Workers: 1, Jobs: map[string]ingest.Job{
		"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Pages: 2},
		"often":    {Kind: ingest.Trending, Cron: "*/30 * * * *", Pages: 1, Regions: []string{"FR"}},
		"strict":   {Kind: ingest.Trending, Cron: "50 */2 * * *", Pages: 1, Regions: []string{"JP"}, Misfire: ingest.Skip},
	}}
}

// Must ends the test if there is an error.
func (l *Life) Must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// Path returns the path of a file of the life.
func (l *Life) Path(name string) string { return filepath.Join(l.Dir, name) }

// costs is the price book of all lives, which nothing changes.
var costs = sync.OnceValues(func() (*quota.Book, error) {
	return book.Parse("test", []byte(Book), &book.Options{Builtins: headroom.ReadBuiltin})
})

// openLedger opens the ledger as package open does, on a disk that can be spoiled, and makes a runner of it.
func (l *Life) openLedger() {
	path, err := sqlitestore.Canonical(l.Path("ledger.db"))
	l.Must(err)
	beside, err := journal.Open(l.Context(), l.Path("journal-ledger.db"), path)
	l.Must(err)
	file, err := sqlitestore.Open(l.Context(), l.Path("ledger.db"), &sqlitestore.Options{Clock: l.Clock, Births: beside, Families: true})
	l.Must(err)
	l.close = func() { _, _ = file.Close(), beside.Close() }
	l.Store = &Store{Store: file}
	costs, err := costs()
	l.Must(err)
	l.Ledger, err = quota.New(costs, l.Store, &quota.Options{Clock: l.Clock, Journal: beside, Flag: " --config " + l.Path("ingestor.yaml")})
	l.Must(err)
	log := slog.New(slog.DiscardHandler)
	client, err := youtubetest.Client(l.Ledger, l.address, log)
	l.Must(err)
	l.Runner = ingest.NewRunner(l.config, l.Ledger, l.Shelf, client, lease.Files(l.Path("locks")), &ingest.Options{
		Clock: l.Clock, Log: log, Jitter: func(time.Duration) time.Duration { return 0 },
	})
}

// Restart ends all processes, and starts them again.
func (l *Life) Restart() {
	fault := l.Store.Is()
	l.Store.Set(Well)
	l.close()
	l.openLedger()
	l.Store.Set(fault)
}

// Sources are what a server or a command reads.
func (l *Life) Sources() view.Sources {
	src := view.Sources{Ledger: l.Ledger, Catalog: l.Shelf, Runner: l.Runner, Jobs: l.Jobs}
	if l.Kind == Fleet {
		src.Fleet = board{l}
	}
	return src
}

// board is the table of a fleet with one daemon.
type board struct{ *Life }

// Status implements [view.Fleet].
func (b board) Status(ctx context.Context) (s fleet.Status, err error) {
	if s.Daemons, err = b.Daemons(ctx); err == nil {
		s.Pauses, s.Locks = slices.Clone(b.pauses), slices.Clone(b.locks)
		s.Judge()
	}
	return s, err
}

// Daemons implements [view.Fleet].
func (b board) Daemons(ctx context.Context) ([]fleet.Daemon, error) {
	if err := b.Shelf.read(ctx); err != nil || b.ended {
		return nil, err
	}
	quiet := b.Clock.Now().Sub(b.seen)
	return []fleet.Daemon{{ID: "berlin-1", Host: "berlin", State: fleet.Running, StartedAt: Began, SeenAt: b.seen, Silent: quiet, Leader: quiet < fleet.Alive}}, nil
}

// Locks implements [view.Fleet].

// Paused reports whether a person paused a job.
func (l *Life) Paused(job string) bool {
	return slices.Contains(l.pauses, fleet.Pause{Account: quota.DefaultAccount, Job: job})
}

// Beat has the daemon note that it is alive, if it can.
func (l *Life) Beat() {
	switch {
	case !l.Alive || l.Kind == Timer:
	case l.Kind == Alone && l.Shelf.Is().Hung():
	case l.Kind == Alone:
		_ = l.heart().Beat(l.Context()) // a full disk takes no note
	case l.Shelf.Is() == Well:
		l.seen, l.ended = l.Clock.Now(), false
	}
}

// Pass lets time pass. Who is alive runs what is due, and says that it is alive.
func (l *Life) Pass(d time.Duration) { l.PassTo(l.Clock.Now().Add(d)) }

// PassTo is [Life.Pass] until a time.
func (l *Life) PassTo(until time.Time) {
	for l.Alive && !l.Hung() && len(l.locks) == 0 && l.Clock.Now().Before(until) {
		if l.Kind == Timer {
			l.tick(until)
			continue
		}
		jobs := slices.DeleteFunc(slices.Clone(l.Jobs), func(j *ingest.Job) bool { return l.Paused(j.Name) })
		if err := ingest.NewDaemon(l.Runner, jobs, nil).Simulate(l.Context(), l.Clock, until); err != nil || len(jobs) == 0 {
			l.Clock.Set(earlier(l.Clock.Now().Add(time.Minute), until)) // it ended, and is started again
		}
	}
	if l.Clock.Now().Before(until) {
		l.Clock.Set(until)
	}
	l.Beat()
}

func (l *Life) heart() *verdict.Heart {
	return verdict.NewHeart(l.Shelf, l.Ledger, &verdict.Options{Clock: l.Clock, Timeout: l.Patience()})
}

// Patience is how long to wait for a store: long, but for one that does not answer. Else a machine that is busy
// would be taken for one.
func (l *Life) Patience() time.Duration {
	if l.Hung() {
		return 40 * time.Millisecond
	}
	return time.Minute
}

// Hung reports whether a store does not answer.
func (l *Life) Hung() bool { return l.Store.Is().Hung() || l.Shelf.Is().Hung() }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// tick lets time pass until the timer starts the program, at the latest until a time, and does what is due.
func (l *Life) tick(until time.Time) {
	next := l.Clock.Now().Truncate(TimerEvery).Add(TimerEvery)
	if next.After(until) {
		l.Clock.Set(until)
		return
	}
	l.Clock.Set(next)
	for _, j := range l.Jobs {
		why, due, err := l.Runner.Due(l.Context(), j)
		if resume, unread := l.Runner.ResumeAt(l.Context(), j, nil); err == nil && unread == nil && !due && !resume.IsZero() && !resume.After(next) {
			why, due = ingest.Occasion{Deferred: true}, true
		}
		if err == nil && due {
			_, _ = l.Runner.Run(l.Context(), j, why) // the history says how it went
		}
	}
}

// Log notes what happened, for a test that fails.
func (l *Life) Log(format string, args ...any) {
	l.Said = append(l.Said, l.Clock.Now().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// Tell writes what happened into the log of a test that failed.
func (l *Life) Tell() {
	l.Helper()
	for _, line := range l.Said {
		l.TB.Log(line)
	}
}

// Knowable reports whether anybody can know by now that no run works, if none does.
func (l *Life) Knowable() bool {
	switch {
	case l.upstream != "" && l.calls.Load() == l.since:
		return false // nobody has called since
	case l.Kind == Timer && !l.Alive && !l.ran(): // nobody was ever there, as far as anybody knows
		return false
	case l.Kind == Timer && !l.Alive:
		for _, j := range l.Jobs { // a run that should have begun
			at := j.Schedule().Next(l.died)
			for l.shifted && l.recorded(j, at) { // a time that came twice had its run before the clock was set back
				at = j.Schedule().Next(at)
			}
			if l.Clock.Now().Sub(at) > 6*time.Minute {
				return true
			}
		}
		return false
	}
	return true
}

// recorded reports whether a time of a job has a run, or was skipped by name.
func (l *Life) recorded(j *ingest.Job, at time.Time) bool {
	runs, err := l.Shelf.Catalog.Runs(l.Context(), catalog.RunsQuery{Job: j.Name, Limit: 1000, Due: at, Bare: true})
	l.Must(err)
	return slices.ContainsFunc(runs, func(r catalog.RunRecord) bool { return r.Scheduled.Equal(at) })
}

func (l *Life) ran() bool {
	runs, err := l.Shelf.Catalog.Runs(l.Context(), catalog.RunsQuery{Limit: 1})
	l.Must(err)
	return len(runs) > 0
}

// Delete removes the ledger, as a person may while it is in use.
func (l *Life) Delete() {
	for _, name := range []string{"ledger.db", "ledger.db-wal", "ledger.db-shm"} {
		if err := os.Remove(l.Path(name)); err != nil && !os.IsNotExist(err) {
			l.Fatal(err)
		}
	}
}

// Heal makes all well, as a person would in the end.
func (l *Life) Heal() {
	l.Store.Set(Well)
	l.Shelf.Set(Well)
	l.sim.Heal()
	l.upstream, l.pauses, l.locks, l.Alive = "", nil, nil, true
	l.Restart()
	l.Clock.Advance(time.Second) // no page is born at the instant at which one that was deleted was, if that comes twice
	_, err := l.Ledger.Admin().Adjust(l.Context(), Units, 1, "what the console says")
	l.Must(err)
	l.Must(l.Ledger.Admin().Unblock(l.Context(), Units))
	l.Beat()
}

// Locked reports whether a lock keeps the daemon of a fleet from working.
func (l *Life) Locked() bool { return len(l.locks) > 0 }

// Shifted reports whether the clock was set.
func (l *Life) Shifted() bool { return l.shifted }

// Upstream is the address of the simulated upstream.
func (l *Life) Upstream() string { return "http://" + l.address }
