package verdict

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// errDisk is what a full disk answers.
var errDisk = errors.New("the disk is full")

// disk is a disk that can be lost, or be full. What cannot be had otherwise in a moment.
type disk struct{ lost, full bool }

func (d *disk) read() error {
	if d.lost {
		return errors.New("the disk is gone")
	}
	return nil
}

func (d *disk) write() error {
	if d.full || d.lost {
		return errDisk
	}
	return nil
}

// store is a ledger's file on a disk.
type store struct {
	*sqlitestore.Store
	disk
}

func (s *store) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if err := s.write(); err != nil {
		return quota.Verdict{}, err
	}
	return s.Store.Reserve(ctx, r)
}

func (s *store) Settle(ctx context.Context, t quota.Token, u quota.Units) (quota.Settlement, error) {
	if err := s.write(); err != nil {
		return quota.Settlement{}, err
	}
	return s.Store.Settle(ctx, t, u)
}

func (s *store) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.Store.Look(ctx, charges)
}

// shelf is a catalog's file on a disk.
type shelf struct {
	*catalog.Catalog
	disk
}

func (s *shelf) Feeds(ctx context.Context) ([]catalog.Feed, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.Catalog.Feeds(ctx)
}

func (s *shelf) Begin(ctx context.Context, of catalog.Start) (catalog.Run, error) {
	if err := s.write(); err != nil {
		return nil, err
	}
	return s.Catalog.Begin(ctx, of)
}

func (s *shelf) SetSlate(ctx context.Context, name, text string, version int64) (bool, error) {
	if err := s.write(); err != nil {
		return false, err
	}
	return s.Catalog.SetSlate(ctx, name, text, version)
}

// life is a history of a daemon, a ledger and a catalog, and of what is said of them.
type life struct {
	*testing.T
	rand   *rand.Rand
	clock  *quota.SimClock
	store  *store
	shelf  *shelf
	ledger *quota.Ledger
	runner *ingest.Runner
	jobs   []*ingest.Job
	alive  bool
	said   []string
}

const lifeBook = "extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {quota: 60, headroom: 10}}}}\n"

func newLife(t *testing.T, seed uint64) *life {
	l := &life{T: t, rand: rand.New(rand.NewPCG(seed, 28)), clock: quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)), alive: true}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: l.clock})
	must(err)
	t.Cleanup(func() { _ = file.Close() })
	kept, err := catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: l.clock})
	must(err)
	t.Cleanup(func() { _ = kept.Close() })
	l.store, l.shelf = &store{Store: file}, &shelf{Catalog: kept}
	costs, err := book.Parse("test", []byte(lifeBook), &book.Options{Builtins: headroom.ReadBuiltin})
	must(err)
	l.ledger, err = quota.New(costs, l.store, &quota.Options{Clock: l.clock})
	must(err)
	config := &ingest.Config{Regions: []string{"US", "DE"}, Workers: 1, Jobs: map[string]ingest.Job{
		"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Pages: 2},
		"often":    {Kind: ingest.Trending, Cron: "*/20 * * * *", Pages: 1, Regions: []string{"FR"}},
	}}
	for _, fault := range config.Prepare() {
		t.Fatal(fault)
	}
	sim := httptest.NewServer(youtubesim.New(&youtubesim.Options{Seed: 1, Clock: l.clock.Now}))
	t.Cleanup(sim.Close)
	log := slog.New(slog.DiscardHandler)
	client, err := youtubetest.Client(l.ledger, sim.Listener.Addr().String(), log)
	must(err)
	l.runner = ingest.NewRunner(config, l.ledger, l.shelf, client, lease.Files(t.TempDir()), &ingest.Options{
		Clock: l.clock, Log: log, Jitter: func(time.Duration) time.Duration { return 0 },
	})
	l.jobs = config.List()
	l.beat()
	return l
}

// pass lets time pass. A daemon that is alive runs what is due, and says that it is alive.
func (l *life) pass(d time.Duration) {
	until := l.clock.Now().Add(d)
	for {
		next := until
		for _, j := range l.jobs {
			if at := j.Schedule().Next(l.clock.Now()); at.Before(next) {
				next = at
			}
		}
		l.clock.Set(next)
		if l.alive {
			l.beat()
			for _, j := range l.jobs {
				resume, err := l.runner.ResumeAt(l.Context(), j, nil)
				switch {
				case j.Schedule().Last(next).Equal(next):
					_, _ = l.runner.Run(l.Context(), j, ingest.Occasion{Scheduled: next}) // the history says how it went
				case err == nil && !resume.IsZero() && !resume.After(next):
					_, _ = l.runner.Run(l.Context(), j, ingest.Occasion{Deferred: true})
				}
			}
		}
		if !next.Before(until) {
			return
		}
	}
}

func (l *life) beat() {
	me := Beat{Host: "here", PID: 1, At: l.clock.Now()}
	_ = me.note(l.Context(), l.shelf, true) // a full disk takes no note
}

func (l *life) log(format string, args ...any) {
	l.said = append(l.said, l.clock.Now().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// happen makes something happen.
func (l *life) happen() {
	units := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	switch what := l.rand.IntN(11); what {
	case 0:
		l.alive = false
		l.log("the daemon is killed, or frozen")
	case 1, 2:
		l.alive = true
		l.beat()
		l.log("a daemon is up")
	case 3:
		n := 1 + l.rand.Int64N(60)
		_, err := l.ledger.Admin().Adjust(l.Context(), units, n, "others")
		l.log("others spend %d: %v", n, err)
	case 4:
		d := time.Duration(1+l.rand.IntN(180)) * time.Minute
		err := l.ledger.BlockFor(l.Context(), units, d, "maintenance")
		l.log("a block for %s: %v", d, err)
	case 5:
		l.log("no block: %v", l.ledger.Admin().Unblock(l.Context(), units))
	case 6:
		l.store.disk = disk{lost: l.rand.IntN(3) == 0, full: true}
		l.log("the ledger's disk: %+v", l.store.disk)
	case 7:
		l.shelf.disk = disk{lost: l.rand.IntN(3) == 0, full: true}
		l.log("the catalog's disk: %+v", l.shelf.disk)
	case 8:
		l.store.disk, l.shelf.disk = disk{}, disk{}
		l.log("the disks are well")
	case 9:
		l.alive = false
		_ = Beat{Host: "here", PID: 1, At: l.clock.Now()}.note(l.Context(), l.shelf, false)
		l.log("the daemon ends by itself")
	case 10:
		l.log("time passes")
		l.pass(time.Duration(l.rand.IntN(8)) * time.Hour)
	}
}

// look returns what is said, as each surface reads it: with a reader that writes, as servers do, and with one that does not.
func (l *life) look(writes bool) (*State, *Verdict) {
	facts := NewReader(&Options{Clock: l.clock, Writes: writes})
	is := facts.Read(l.Context(), &view.Sources{Ledger: l.ledger, Catalog: l.shelf, Runner: l.runner, Jobs: l.jobs})
	return is, is.Verdict()
}

// holds checks what is said against what happens then.
func (l *life) holds() {
	is, v := l.look(true)
	l.log("%s: %s %v", v.Word, v.Says, v.More)
	if _, other := l.look(false); is.Stuck == nil && is.Unkept == nil && v.Says.String() != other.Says.String() {
		l.Errorf("who does not write says %s, and who does %s", other.Says, v.Says)
	}
	chances := is.chances()
	if len(chances) == 0 {
		l.Fatal("there is no run to come")
	}
	next := chances[0]
	l.pass(max(next.at.Sub(l.clock.Now()), beatEvery)) // deferred work is resumed within a moment
	worked := false
	if l.store.disk == (disk{}) && l.shelf.disk == (disk{}) {
		runs, err := l.shelf.Runs(l.Context(), catalog.RunsQuery{Job: next.job.Name, Limit: 1})
		if err != nil {
			l.Fatal(err)
		}
		worked = len(runs) > 0 && !runs[0].StartedAt.Before(next.at) && (view.Total(&runs[0]).Pages > 0 || runs[0].State == catalog.Done)
	}
	if v.Level == good && !worked { // no false green
		l.Errorf("it said %q, and %s did no work", v.Says, next.job.Name)
	}
	if v.Level == bad && worked { // no false red
		l.Errorf("it said %q, and %s worked", v.Says, next.job.Name)
	}
}

// TestSayings: what is said of random histories is what happens then. A verdict that is good is followed by a
// run that works, and one that is bad by none; two readers agree; and a daemon that is gone is missed within
// a minute.
func TestSayings(t *testing.T) {
	histories := 50
	if os.Getenv("HEADROOM_SOAK") == "1" {
		histories = 2000
	}
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			l := newLife(t, seed)
			for range 12 {
				l.happen()
				l.pass(time.Minute) // what happened is known by then
				l.holds()
				if t.Failed() {
					for _, line := range l.said {
						t.Log(line)
					}
					return
				}
			}
		})
	}
}
