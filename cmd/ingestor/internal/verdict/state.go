// Package verdict works out from facts whether the jobs can do their work. All that speaks of it
// asks here: pages, JSON, /readyz, the command check, metrics and notices. So no two of them say
// different things.
//
// A [Reader] reads the facts once ([State]); [State.Verdict] judges them. Its sentences are for people, and
// name no address of a server, because they stand on pages.
package verdict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/deadline"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// State is what is known of a ledger, a catalog, the jobs and the daemons at one time.
type State struct {
	Now    time.Time
	MaxAge time.Duration // an older chart is stale; zero: none is
	Typed  string        // flags that a person adds to the commands that are named: how this program was started
	Book   *quota.Book
	Jobs   []*Job

	Pools  []quota.Usage
	Outage error                   // why the ledger, or some pools of it, cannot be read
	Lost   []*quota.ForgottenError // the pools whose spend the ledger has forgotten
	Stuck  error                   // why it cannot be written
	Counts view.CountState

	Feeds  []view.Feed
	Unread error // why the catalog cannot be read
	Unkept error // why it cannot be written

	Daemons []Beat        // of a catalog in a file
	Fleet   *fleet.Status // nil if the catalog is a file, or if the state of the fleet cannot be read
	Unseen  error         // why it cannot be read
	Disks   []Disk        // that are nearly full
}

// Disk is a folder whose disk is nearly full.
type Disk struct {
	Folder string
	Left   int64 // bytes
}

// littleRoom is what a disk must have left.
const littleRoom = 256 << 20

// Options are the options of a [Reader]; nil is valid.
type Options struct {
	Clock  quota.Clock
	MaxAge time.Duration // see [State]

	// Timeout bounds the wait for the ledger, and that for the catalog; zero is 3s.
	Timeout time.Duration

	// Writes says that the reader also tries whether the ledger and the catalog can be written, every ten
	// seconds at most. Other readers do not know.
	Writes bool
	// Folders are those whose disks must not be full.
	Folders []string
	Typed   string // see [State]
}

// Reader reads the facts. It is safe for concurrent use.
type Reader struct {
	Options
	ledger, catalog, rooms attempt
	room                   func(dir string) (bytes int64, known bool) // [sqlitefile.Room]

	mu    sync.Mutex
	disks []Disk          // what rooms found last
	units map[int64]int64 // of runs that are done: they do not change
}

// NewReader returns a reader.
func NewReader(o *Options) *Reader {
	r := &Reader{Options: *cmp.Or(o, &Options{}), units: map[int64]int64{}, room: sqlitefile.Room}
	r.Clock = cmp.Or[quota.Clock](r.Clock, quota.SystemClock{})
	r.Timeout = cmp.Or(r.Timeout, 3*time.Second)
	return r
}

// Read reads the facts. What it cannot read stays in the state as an error.
func (r *Reader) Read(ctx context.Context, src *view.Sources) *State { return r.read(ctx, src, true) }

// ReadHere reads the facts that may differ from process to process: none that the catalog or a table of the fleet has.
func (r *Reader) ReadHere(ctx context.Context, src *view.Sources) *State {
	return r.read(ctx, src, false)
}

var errUnasked = errors.New("nobody asked")

func (r *Reader) read(ctx context.Context, src *view.Sources, all bool) *State {
	s := &State{Now: r.Clock.Now(), MaxAge: r.MaxAge, Typed: r.Typed, Book: src.Ledger.Book()}
	var unkept error
	var disks []Disk
	var trying sync.WaitGroup
	trying.Go(func() { unkept = r.keep(ctx, src) })
	trying.Go(func() { disks = r.measure(ctx) })
	s.price(src)
	if src.Counting != nil {
		s.Counts = src.Counting.State()
	}
	stuck := r.charge(ctx, src.Ledger) // first, because it charges what was admitted in an outage
	s.Outage = r.part(ctx, s, 2, func(ctx context.Context, s *State) (err error) {
		s.Pools, err = src.Ledger.View().Usage(ctx, "", "")
		if errors.As(err, new(*quota.ForgottenError)) {
			s.Lost, _ = src.Ledger.View().Forgotten(ctx) // at worst only the first is known, by err
		}
		return err
	})
	if !all {
		s.Unread = errUnasked
	} else if src.Catalog != nil {
		s.Unread = r.part(ctx, s, 2, func(ctx context.Context, s *State) error { return r.readCatalog(ctx, src, s) })
	}
	if src.Fleet != nil && all {
		s.Unseen = r.part(ctx, s, 1, func(ctx context.Context, s *State) error {
			is, err := src.Fleet.Status(ctx)
			if err == nil {
				s.Fleet = &is
			}
			return err
		})
	}
	if s.Fleet != nil {
		s.pause()
	}
	if s.Outage != nil {
		s.addPoolsOfJobs()
	}
	trying.Wait()
	s.Stuck, s.Unkept, s.Disks = cmp.Or(stuck, s.stuck()), unkept, disks
	return s
}

// price makes the jobs anew, of which nothing else is known.
func (s *State) price(src *view.Sources) {
	s.Jobs = nil
	for _, j := range src.Jobs {
		s.Jobs = append(s.Jobs, s.newJob(j))
	}
}

// part reads a part of the state, into a copy: a disk may answer when nobody waits any more. It takes a share of the
// time that is left, so that a ledger that hangs does not make a catalog look as if it did.
func (r *Reader) part(ctx context.Context, s *State, share int, read func(context.Context, *State) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline.Share(ctx, share, r.Timeout))
	defer cancel()
	part := *s
	return Within(ctx, func() (func(), error) {
		err := read(ctx, &part)
		return func() { *s = part }, err
	})
}

// parting is how long those are waited for who answer when their time is over: they know why.
const parting = 250 * time.Millisecond

// Within calls a function that may never return, and then what it returns, unless the context has ended before.
func Within(ctx context.Context, ask func() (use func(), err error)) error {
	type answer struct {
		use func()
		err error
	}
	got := make(chan answer, 1)
	go func() {
		use, err := ask()
		got <- answer{use, err}
	}()
	select {
	case a := <-got:
		a.use()
		return a.err
	case <-ctx.Done():
	}
	select {
	case a := <-got:
		a.use()
		return a.err
	case <-time.After(parting):
		return ctx.Err()
	}
}

// pause takes the next start from the jobs that a person paused.
func (s *State) pause() {
	for _, j := range s.Jobs {
		if s.Fleet.Paused(cmp.Or(j.Account, quota.DefaultAccount), j.Name) {
			j.Paused, j.Next, j.Resume, j.Missed = true, time.Time{}, time.Time{}, time.Time{}
		}
	}
}

// Within asks with the reader's timeout.
func (r *Reader) Within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return ask(ctx)
}

func (r *Reader) readCatalog(ctx context.Context, src *view.Sources, s *State) error {
	feeds, err := src.Catalog.Feeds(ctx)
	if err != nil {
		return fmt.Errorf("read the feeds: %w", err)
	}
	s.Feeds = view.Feeds(feeds, src.Jobs, s.Now, s.MaxAge)
	s.price(src) // those of before are not changed: see part
	if src.Fleet == nil {
		text, _, err := src.Catalog.Slate(ctx, beatsIn)
		if err != nil {
			return err
		}
		s.Daemons = readBeats(text)
	}
	for _, j := range s.Jobs {
		if err := j.read(ctx, r, src, s); err != nil {
			return err
		}
	}
	return nil
}

// Try tries to write the ledger and the catalog, both at once, unless that was done a moment ago. To write
// changes the version of a catalog, so it comes before what is kept by that version is read.
func (r *Reader) Try(ctx context.Context, src *view.Sources) {
	var both sync.WaitGroup
	both.Go(func() { _ = r.charge(ctx, src.Ledger) }) // what is read next says what is wrong
	both.Go(func() { _ = r.keep(ctx, src) })
	both.Wait()
}

// charge tries to write the ledger, unless that was done a moment ago.
func (r *Reader) charge(ctx context.Context, l *quota.Ledger) error {
	if !r.Writes {
		return nil
	}
	return r.ledger.made(ctx, r, l, l.Ready)
}

// keep tries to write the catalog, unless that was done a moment ago.
func (r *Reader) keep(ctx context.Context, src *view.Sources) error {
	if !r.Writes || src.Catalog == nil {
		return nil
	}
	return r.catalog.made(ctx, r, src.Catalog, func(ctx context.Context) error {
		now := r.Clock.Now().UTC().Format(time.RFC3339)
		return Change(ctx, src.Catalog, "probe", func(string) (string, bool) { return now, true })
	})
}

// What was found by writing holds for so long.
const (
	writesEvery = 10 * time.Second
	triesEvery  = time.Second // after a fault, which may be over
)

// attempt is the last attempt to write to a store. One is under way at a time, and it ends by itself: those who
// ask may go away.
type attempt struct {
	mu    sync.Mutex
	of    any
	at    time.Time // when it began
	err   error
	under chan struct{} // closed when the one under way ends; nil if none is
}

// made returns what was found a moment ago, or what is found now. What an attempt found that others began is not
// believed if it failed: it may have waited for a disk that answers again. Of a bounded time, a half is left to read.
func (a *attempt) made(ctx context.Context, r *Reader, of any, try func(context.Context) error) (err error) {
	wait := deadline.Share(ctx, 2, r.Timeout)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for mine := false; !mine; {
		a.mu.Lock()
		holds := writesEvery
		if a.err != nil {
			holds = triesEvery
		}
		if a.of == of && r.Clock.Now().Sub(a.at).Abs() < holds {
			defer a.mu.Unlock()
			return a.err
		}
		if mine = a.under == nil; mine {
			a.under = make(chan struct{})
			go a.make(ctx, r, r.Clock.Now(), of, try)
		}
		under := a.under
		a.mu.Unlock()
		select {
		case <-under:
			a.mu.Lock()
			err = a.err
			a.mu.Unlock()
		case <-ctx.Done():
			return fmt.Errorf("it has not answered within %s", wait.Round(time.Millisecond)) // it is still under way
		}
		mine = mine || err == nil
	}
	return err
}

// make makes an attempt that began at a time. What a disk found that answers an hour later is old.
func (a *attempt) make(ctx context.Context, r *Reader, at time.Time, of any, try func(context.Context) error) {
	err := r.Within(context.WithoutCancel(ctx), try)
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.under)
	if r.Clock.Now().Before(at) {
		at = time.Time{} // the clock was set back meanwhile
	}
	a.of, a.at, a.err, a.under = of, at, err, nil
}

// Believe adds why a command that only reads was given a copy: the ledger or the catalog cannot be written. That the
// command lacks a right says nothing of a daemon that is alive, and neither does a disk that is mounted for reading only
// here, nor one without room for what a newer program than the daemon does first. A timer is alive if it made a run in
// the last hour.
func (s *State) Believe(ledger, catalog error) {
	holds := func(err error) bool {
		if sqlitefile.ReadOnly(err) {
			return !s.anyAlive() && !s.ranSince(s.Now.Add(-time.Hour))
		}
		if errors.Is(err, sqlitefile.ErrNoRoom) {
			return !s.anyAlive()
		}
		return err != nil && (sqlitefile.Ailing(err) || s.Gone() != nil)
	}
	if holds(ledger) {
		s.Stuck = ledger
	}
	if holds(catalog) {
		s.Unkept = catalog
	}
}

// measureWithin is how long a reader waits for what the disks have left.
const measureWithin = 100 * time.Millisecond

// measure returns the disks that are nearly full, as they were found last. Readers do not wait for a disk.
func (r *Reader) measure(ctx context.Context) []Disk {
	if len(r.Folders) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, measureWithin)
	defer cancel()
	_ = r.rooms.made(ctx, r, r, func(context.Context) error { // what it finds is read below
		disks := r.nearlyFull()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.disks = disks
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disks
}

func (r *Reader) nearlyFull() (all []Disk) {
	for _, folder := range r.Folders {
		at := folder
		left, known := r.room(at)
		for !known && at != filepath.Dir(at) { // it is made when it is needed
			at = filepath.Dir(at)
			left, known = r.room(at)
		}
		if known && left < littleRoom {
			all = append(all, Disk{folder, left})
		}
	}
	return all
}

// Pool returns the usage of a pool, or nil if the price book has none of that name.
func (s *State) Pool(name string) *quota.Usage {
	for i := range s.Pools {
		if s.Pools[i].Pool.String() == name {
			return &s.Pools[i]
		}
	}
	return nil
}

// open reports whether a pool is known to be open.
func (s *State) open(name string) bool {
	u := s.Pool(name)
	return u != nil && Known(u) && !u.Blocked.After(u.Now)
}

// Known reports whether anything is known of a pool.
func Known(u *quota.Usage) bool { return !u.Now.IsZero() }

// outageOf returns why it is not known what a job can spend. Spend that was forgotten stops only the
// jobs that charge its pool.
func (s *State) outageOf(j *Job) error {
	unknown := func(name string) bool {
		u := s.Pool(name)
		return u != nil && !Known(u)
	}
	if errors.As(s.Outage, new(*quota.ForgottenError)) && len(j.Methods) > 0 && !slices.ContainsFunc(j.Pools(), unknown) {
		return nil
	}
	return s.Outage
}

// JobsOf returns how many jobs charge a pool.
func (s *State) JobsOf(pool string) (n int) {
	for _, j := range s.Jobs {
		if j.Share[pool] > 0 {
			n++
		}
	}
	return n
}

// Used reports whether anybody uses a pool. The rate of a step of a budget is used by calls that pass the step.
func (s *State) Used(u *quota.Usage) bool {
	return (u.Known || s.JobsOf(u.Pool.String()) > 0) && (!u.Idle || u.Blocked.After(u.Now))
}
