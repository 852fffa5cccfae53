package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// Options are the options of [Make]; nil is valid.
type Options struct {
	// From is the beginning of the plan, in the years 2024 to 2999; zero is now.
	From time.Time
	// Days is the number of days of the upstream's calendar. The first one may have
	// begun. Zero is 30.
	Days int
	// Past is the spend before the plan; nil is no spend.
	Past *Past
	// History is a copy of the catalog that the plan continues from; nil is an empty one.
	History *Sketch
	// Records are the lengths of passes and the failures so far; see [ReadRecords].
	Records map[Work]Record
	// Alone skips the comparison with other windows, and the search for a schedule that fits.
	Alone bool
	// Progress is called with the end of each day, and with the zero time when only the
	// comparison is left; nil is never called.
	Progress func(time.Time)
}

// DefaultDays is the number of days of a plan without [Options].Days.
const DefaultDays = 30

// Plan is the spend of a schedule, and the work that it would not do in time.
type Plan struct {
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Zone    string    `json:"zone"` // of the days
	Fits    bool      `json:"fits"`
	Runs    int       `json:"runs"`
	Calls   int64     `json:"calls"`
	Refused int64     `json:"refused"` // number of calls that the upstream itself refused
	Pools   []Pool    `json:"pools"`
	First   *Deferral `json:"first_deferral"` // nil if nothing is deferred
	// Impossible names work that no quota of the pool could ever pay for, or is empty.
	Impossible string     `json:"impossible,omitempty"`
	Deferred   []Deferred `json:"deferred"` // by work and pool, in the order in which they start
	Stale      []Stale    `json:"stale"`    // the worst first
	Compared   []Compared `json:"compared"`
	Remedy     *Remedy    `json:"remedy,omitempty"` // nil if it fits
	// LeftOut are the jobs of which the plan does not know the spend, or knows only a part. The
	// notes say why.
	LeftOut []string `json:"left_out,omitempty"`
	Notes   []string `json:"notes"`
}

// Make prices the schedule of a prepared configuration with a price book.
func Make(ctx context.Context, c *ingest.Config, book *quota.Book, o *Options) (*Plan, error) {
	o = cmp.Or(o, &Options{})
	s, err := newScenario(c, o)
	if err != nil {
		return nil, err
	}
	if o.Alone {
		return s.run(ctx, book)
	}
	ctx, cancel := context.WithCancel(ctx)
	others := &alternatives{scenario: *s, ctx: ctx, book: book}
	defer others.side.Wait()
	defer cancel()
	s.refused = sync.OnceFunc(others.begin)
	p, err := s.run(ctx, book)
	if err != nil {
		return nil, err
	}
	s.progress(time.Time{})
	if p.Compared, err = others.compare(p); err != nil {
		return nil, err
	}
	if !p.Fits && p.Impossible == "" {
		p.Remedy, err = s.remedy(ctx, book, p)
	}
	return p, err
}

// scenario is the input of a plan, without the windows.
type scenario struct {
	config      *ingest.Config
	options     *Options
	zone        *time.Location
	from, until time.Time
	progress    func(time.Time)
	refused     func()                             // called at each refusal, also if the runner waits for the units
	deferred    func(d *Deferral, end func(error)) // called at each deferral; end ends the plan
}

func newScenario(c *ingest.Config, o *Options) (*scenario, error) {
	s := &scenario{config: c, options: o, from: o.From, zone: time.UTC, progress: o.Progress, refused: func() {}, deferred: func(*Deferral, func(error)) {}}
	if s.progress == nil {
		s.progress = func(time.Time) {}
	}
	days := cmp.Or(o.Days, DefaultDays)
	if days < 1 || days > MaxDays {
		return nil, fmt.Errorf("a plan has 1 to %d days, not %d", MaxDays, days)
	}
	if s.from.IsZero() {
		s.from = quota.SystemClock{}.Now()
	}
	if err := checkStart(s.from); err != nil {
		return nil, err
	}
	var err error
	if s.zone, err = time.LoadLocation(pacific); err != nil {
		return nil, err
	}
	s.until = midnight(s.from, s.zone, days)
	return s, nil
}

// run makes the plan with the windows of a book.
func (s *scenario) run(ctx context.Context, book *quota.Book) (*Plan, error) {
	clock := quota.NewSimClock(s.from)
	r, err := newRig(ctx, s, book, clock)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &tally{s: s, rig: r, end: end, last: s.from, pools: map[quota.Pool]*Pool{}, deferred: map[deferredKey]*Deferred{}, stale: map[Work]*Stale{}}
	daemon := ingest.NewDaemon(r.runner, s.config.List(), t.add)
	err = daemon.Simulate(ctx, clock, s.until.Add(-time.Microsecond)) // midnight belongs to the next day
	if err = errors.Join(err, t.failed); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return t.plan(ctx)
}

const (
	upstream = "youtube"
	pacific  = "America/Los_Angeles" // the upstream counts days in this zone

	// MaxDays is the largest number of days of a plan.
	MaxDays = 366

	// A plan begins in these years. Before them the simulated upstream lacks some of its
	// channels. Long after them a schedule has no next time.
	firstYear, lastYear = 2024, 2999
)

// midnight returns the beginning of the day of t, or of a day some days later.
func midnight(t time.Time, zone *time.Location, days int) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day()+days, 0, 0, 0, 0, zone)
}

// ParseDay returns the beginning of a day of the upstream's calendar, such as 2027-03-01.
// It returns an error if no plan can begin then.
func ParseDay(text string) (time.Time, error) {
	zone, err := time.LoadLocation(pacific)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.ParseInLocation(time.DateOnly, text, zone)
	if err != nil {
		return t, fmt.Errorf("%q is not a day; write it as 2027-03-01", text)
	}
	return t, checkStart(t)
}

// checkStart returns an error if no plan can begin at an instant.
func checkStart(t time.Time) error {
	if year := t.Year(); year < firstYear || year > lastYear {
		return fmt.Errorf("a plan begins in the years %d to %d, not in %d", firstYear, lastYear, year)
	}
	return nil
}
