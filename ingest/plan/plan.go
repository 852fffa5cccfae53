package plan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// Options are what [Make] can be told; nil is legal.
type Options struct {
	// From is when the plan begins, in the years 2024 to 2999; zero is the clock's now.
	From time.Time
	// Days is how many days of the pools' calendar it has, the first of which may
	// have begun; zero is 30.
	Days int
	// Clock is asked for From; nil is the machine's.
	Clock quota.Clock
	// Past is what was spent before; nil is nothing.
	Past *Past
	// History is a copy of the catalog that the plan continues from; nil is an empty one.
	History *Sketch
	// Records say how long passes are, and what fails; see [Recorded].
	Records map[Work]Record
	// Alone leaves out the comparison with other windows.
	Alone bool
	// Progress is told each day that is over, and zero when only other windows are
	// still tried; nil is nobody.
	Progress func(time.Time)
}

// DefaultDays is how many days a plan has that says nothing else.
const DefaultDays = 30

// Plan is what a schedule would spend, and what it would not get done.
type Plan struct {
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Zone    string    `json:"zone"` // whose days they are
	Fits    bool      `json:"fits"`
	Runs    int       `json:"runs"`
	Calls   int64     `json:"calls"`
	Refused int64     `json:"refused"` // by the upstream itself, which counts on its own
	Pools   []Pool    `json:"pools"`
	First   *Deferral `json:"first_deferral"` // nil: nothing is
	// Impossible says which work could never be paid for, whatever the time; empty is
	// none.
	Impossible string     `json:"impossible,omitempty"`
	Deferred   []Deferred `json:"deferred"` // by work and pool, in the order in which they begin
	Stale      []Stale    `json:"stale"`    // the worst first
	Compared   []Compared `json:"compared"`
	Notes      []string   `json:"notes"`
}

// Make prices the schedule of a configuration that was prepared by a price book.
func Make(ctx context.Context, c *ingest.Config, book *quota.Book, o *Options) (*Plan, error) {
	if o == nil {
		o = &Options{}
	}
	s, err := newScenario(c, o)
	if err != nil {
		return nil, err
	}
	if o.Alone {
		return s.run(ctx, book)
	}
	ctx, cancel := context.WithCancel(ctx)
	beside := &alternatives{scenario: *s, ctx: ctx, book: book}
	defer beside.side.Wait()
	defer cancel()
	s.refused = sync.OnceFunc(beside.begin)
	p, err := s.run(ctx, book)
	if err != nil {
		return nil, err
	}
	s.progress(time.Time{})
	if p.Compared, err = beside.compare(p); err != nil {
		return nil, err
	}
	return p, nil
}

// scenario is what is planned, whatever the windows.
type scenario struct {
	config      *ingest.Config
	options     *Options
	zone        *time.Location
	from, until time.Time
	progress    func(time.Time)
	refused     func() // told when the ledger says no, also where that is waited for
}

func newScenario(c *ingest.Config, o *Options) (*scenario, error) {
	s := &scenario{config: c, options: o, from: o.From, zone: time.UTC, progress: o.Progress, refused: func() {}}
	if s.progress == nil {
		s.progress = func(time.Time) {}
	}
	days := o.Days
	if days == 0 {
		days = DefaultDays
	}
	if days < 1 || days > MaxDays {
		return nil, fmt.Errorf("a plan has 1 to %d days, not %d", MaxDays, days)
	}
	if s.from.IsZero() {
		clock := o.Clock
		if clock == nil {
			clock = quota.SystemClock{}
		}
		s.from = clock.Now()
	}
	if err := begins(s.from); err != nil {
		return nil, err
	}
	var err error
	if s.zone, err = time.LoadLocation(pacific); err != nil {
		return nil, err
	}
	s.until = midnight(s.from, s.zone, days)
	return s, nil
}

// run makes the plan by the windows of a book.
func (s *scenario) run(ctx context.Context, book *quota.Book) (*Plan, error) {
	clock := quota.NewSimClock(s.from)
	r, err := newRig(ctx, s, book, clock)
	if err != nil {
		return nil, err
	}
	t := newTally(s, r)
	daemon := ingest.NewDaemon(r.runner, s.config.List(), t.add)
	err = daemon.Simulate(ctx, clock, s.until.Add(-time.Microsecond)) // midnight is of the next day
	if err = errors.Join(err, t.failed); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return t.plan(ctx)
}
