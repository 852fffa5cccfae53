package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// errInterrupted does not leave with 75, which would mean that the plan does not fit.
var errInterrupted = &console.Exit{Code: console.ExitFailed, Err: errors.New("interrupted before the plan was complete")}

func PlanCommand(a *session.Session) *cobra.Command {
	var o plan.Options
	var from, svg string
	cmd := a.Command("plan", console.NoArgs, func(cmd *cobra.Command, _ []string) (err error) {
		if o.Days < 1 || o.Days > plan.MaxDays {
			return console.Usage("--days must be 1 to %d, not %d", plan.MaxDays, o.Days)
		}
		o.From = a.Now().Truncate(time.Second)
		if from != "" {
			if o.From, err = plan.ParseDay(from); err != nil {
				return console.Usage("--from: %w", err)
			}
		}
		s, err := a.Settings(cmd.Flags())
		if err != nil {
			return err
		}
		if err := s.Priced(s.List()); err != nil {
			return err
		}
		debug.SetGCPercent(400) // a plan makes much garbage: this saves a fifth of the time, for some 100 MB
		notes, err := since(cmd.Context(), a, s, &o, from == "")
		if err != nil {
			return err
		}
		told := tellDays(a, &o)
		p, err := plan.Make(cmd.Context(), &s.Config, s.Book, &o)
		told()
		if cmd.Context().Err() != nil {
			return errInterrupted
		}
		if err != nil {
			return err
		}
		p.Notes = append(notes, p.Notes...)
		programs := slices.ContainsFunc(s.List(), func(j *ingest.Job) bool { return j.Kind.Runs() })
		if err := a.Print(p, func(s *console.Sheet) { writePlan(s, p, programs) }); err != nil {
			return err
		}
		for _, note := range p.Notes {
			fmt.Fprintf(a.Stderr, "ingestor: %s\n", note)
		}
		if svg != "" {
			if err := os.WriteFile(svg, p.SVG(), 0o644); err != nil {
				return console.Config(fmt.Errorf("draw the plan: %w", err))
			}
		}
		switch {
		case p.Impossible != "":
			return console.Config(errors.New(p.Impossible))
		case !p.Fits:
			return &console.Exit{Code: console.ExitDeferred}
		}
		return nil
	})
	cmd.Flags().IntVar(&o.Days, "days", plan.DefaultDays, "`number` of days of the upstream's calendar, today included")
	cmd.Flags().StringVar(&from, "from", "", "first `day` of the upstream's calendar, as 2027-03-01 (default now)")
	cmd.Flags().StringVar(&svg, "svg", "", "draw the plan into this `file`")
	return cmd
}

// tellDays shows on a terminal how far a plan has come, since one that does not fit may
// take a minute. The returned function ends that.
func tellDays(a *session.Session, o *plan.Options) (end func()) {
	if !console.IsTerminal(a.Stderr) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	const clear = "\r\x1b[K"
	o.Progress = func(at time.Time) {
		what := at.Format(time.DateOnly)
		if at.IsZero() {
			what = "with other windows"
		}
		fmt.Fprint(a.Stderr, clear+"planning "+what)
	}
	return func() { fmt.Fprint(a.Stderr, clear) }
}

func writePlan(s *console.Sheet, p *plan.Plan, programs bool) {
	s.Line("%s", s.In(console.Faint, fmt.Sprintf("%s to %s, %d runs, %s calls", console.Stamp(p.From), console.Stamp(p.Until), p.Runs, view.Number(p.Calls))))
	poolDays(s, p)
	whether(s, p, programs)
	if len(p.Deferred) > 0 {
		s.Line("")
		console.List(s, console.Columns("~deferred", "~work", "~pool", ">times", "first", "until"), p.Deferred, func(d *plan.Deferred) []string {
			return []string{d.Job, console.Plain(d.Work), d.Pool, view.Number(int64(d.Times)), console.Stamp(d.At), console.Stamp(d.Until)}
		})
	}
	if len(p.Stale) > 0 {
		s.Line("")
		console.List(s, console.Columns("~stale", "~work", ">behind", "since", ">missed", "~why"), p.Stale, func(st *plan.Stale) []string {
			return []string{st.Job, console.Plain(st.Work), console.Span(time.Duration(st.Behind) * time.Second), console.Stamp(st.Since), view.Number(int64(st.Missed)), console.Plain(st.Error)}
		})
	}
	s.Line("")
	console.List(s, console.Columns("windows", "units", ">deferred", ">refused by upstream"), p.Compared, func(c *plan.Compared) []string {
		var units []string
		for _, pool := range p.Pools {
			units = append(units, pool.Pool+" "+view.Amount(pool.Pool, c.Units[pool.Pool]))
		}
		return []string{c.Windows, strings.Join(units, ", "), view.Number(int64(c.Deferred)), view.Number(c.Refused)}
	})
}

// poolDays writes a row for each pool and day. Equal days share a row.
func poolDays(s *console.Sheet, p *plan.Plan) {
	var rows [][]string
	for _, pool := range p.Pools {
		var last []string
		for i, d := range pool.Days {
			row := poolDay(s, &pool, &d)
			if i > 0 && slices.Equal(row[2:], last) {
				first, _, _ := strings.Cut(rows[len(rows)-1][1], " ")
				rows[len(rows)-1][1] = first + " to " + d.Day
				continue
			}
			rows, last = append(rows, row), row[2:]
		}
	}
	s.Table(console.Columns("~pool", "day", ">hours", "", ">before", ">units", ">limit", ">left", ">deferred"), rows)
}

func poolDay(s *console.Sheet, pool *plan.Pool, d *plan.Day) []string {
	hours, bar, limit, left := "", "", "", ""
	if d.Hours != 24 {
		hours = console.Span(time.Duration(d.Hours * float64(time.Hour)))
	}
	if pool.Limit > 0 {
		bar, limit, left = s.Bar(d.Before+d.Units, pool.Limit), view.Amount(pool.Pool, pool.Limit), view.Amount(pool.Pool, d.Left)
	}
	return []string{pool.Pool, d.Day, hours, bar, amountOrBlank(pool.Pool, d.Before), view.Amount(pool.Pool, d.Units), limit, left, amountOrBlank("", int64(d.Deferred))}
}

// amountOrBlank formats units of a pool, and 0 as nothing.
func amountOrBlank(pool string, n int64) string {
	if n == 0 {
		return ""
	}
	return view.Amount(pool, n)
}

func whether(s *console.Sheet, p *plan.Plan, programs bool) {
	switch f := p.First; {
	case p.Impossible != "": // the error of the command says so
	case f == nil:
		s.Line("\n%s", s.In(console.Good, p.Outcome()))
	default:
		s.Line("\n%s", s.In(console.Bad, fmt.Sprintf("It does not fit. First, at %s, %s of %s is deferred until %s: %s.",
			console.Stamp(f.At), console.Plain(f.Work), f.Job, console.Stamp(f.Until), f.Why())))
		remedy(s, p.Remedy, programs)
	}
}

// remedy says which schedule would fit.
func remedy(s *console.Sheet, r *plan.Remedy, programs bool) {
	if r == nil {
		return
	}
	who, only := "It", ""
	if never := strings.Join(r.Never, ", "); never != "" {
		who, only = "Without "+never+", the others", " for "+never
	}
	if !r.Fits {
		less := "fetch fewer regions, queries or pages"
		if programs {
			less += ", or lower the max_units of programs"
		}
		s.Line("No schedule was found that fits%s: %s.", only, less)
	}
	switch {
	case len(r.Schedules) > 0:
		s.Line("%s would fit with these schedules:", who)
		for _, name := range slices.Sorted(maps.Keys(r.Schedules)) {
			s.Line("  %s: schedule: %q", name, r.Schedules[name])
		}
	case r.Fits:
		s.Line("It fits once the units that were spent before have come back.")
	}
}

// patience is how long a plan waits for a ledger on a server: it can do without.
const patience = 3 * time.Second

// since takes what ledger and catalog know into a plan, and says what they do not. A
// plan that begins another day has the records only. Where there is a file and it cannot
// be read, or the price book is older than the ledger's, no plan would be one to go by;
// what is not there, or on a server that cannot be reached from here, it does without.
func since(ctx context.Context, a *session.Session, s *settings.Settings, o *plan.Options, now bool) (notes []string, err error) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	var sketch *plan.Sketch
	older, err := a.Inspect(ctx, s, func(c plan.Source) (err error) {
		sketch, err = plan.ReadSketch(ctx, c, s.List(), quota.NewSimClock(o.From))
		return err
	})
	if older != nil {
		note("%s", older.Why)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		note("there is no catalog yet: work has as many pages as it has in the simulated upstream")
	case err != nil:
		return nil, unreadable(ctx, err)
	default:
		runs, err := sketch.Runs(ctx, catalog.RunsQuery{Limit: 1 << 20})
		if err != nil {
			return nil, err
		}
		if o.Records = plan.ReadRecords(runs); now {
			o.History = sketch
		}
		notes = append(notes, failing(o.Records)...)
	}
	if !now {
		note("the plan begins another day: nothing was spent before, and all work is to be done")
		return notes, nil
	}
	if at, err := open.Parse(s.Ledger); err == nil {
		if schema, older, err := at.Older(ctx); err == nil && older {
			note("%s", session.OlderSchema("ledger", at.File, schema))
		}
	}
	o.Past, err = past(ctx, s, o.From)
	var absent *absentError
	switch {
	case errors.As(err, &absent):
		note("%s", strings.TrimSpace(fmt.Sprintf("nothing is taken to be spent so far: %s\n%s", err, session.Service(s))))
	case errors.Is(err, quota.ErrStaleBook):
		return nil, err
	case err != nil:
		return nil, unreadable(ctx, err)
	case len(o.Past.Spent) > 0 && !strings.HasPrefix(s.Ledger, "sqlite:"):
		note("this ledger says what was spent, and not when: all that does not come back next is taken to be spread over the day")
	}
	return notes, nil
}

// absentError is why there is no ledger to be asked.
type absentError struct{ error }

// unreadable is what is there and cannot be read.
func unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("%w; or plan without it: see ingestor plan --help", err)}
}

// failing says what is taken to go on failing.
func failing(records map[plan.Work]plan.Record) (notes []string) {
	for work, r := range records {
		if r.Failing {
			notes = append(notes, fmt.Sprintf("%s of %s has failed in its last runs, and is taken to go on so", console.Plain(work.Work), work.Job))
		}
	}
	slices.Sort(notes)
	return notes
}

// past is what the ledger says was spent before a time. It changes nothing in it: a
// file is copied first.
func past(ctx context.Context, s *settings.Settings, now time.Time) (_ *plan.Past, err error) {
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	var store quota.Store
	var clock *quota.SimClock
	switch scheme, rest, _ := strings.Cut(s.Ledger, ":"); scheme {
	case "sqlite":
		clock = quota.NewSimClock(now)
		if info, missing := os.Stat(rest); errors.Is(missing, fs.ErrNotExist) || missing == nil && info.Size() == 0 {
			return nil, &absentError{fmt.Errorf("there is no ledger %s yet", rest)}
		}
		store, err = session.CopyOfLedger(ctx, rest, clock, &done)
	case "redis", "rediss", "unix", "postgres", "postgresql":
		var closer func() error
		if store, closer, err = open.Store(ctx, s.Ledger, nil); err == nil {
			done.Add(closer)
		}
	default:
		return nil, &absentError{errors.New("a ledger in memory has nothing to tell")}
	}
	if err != nil {
		return nil, err
	}
	l, err := quota.New(s.Book, store, nil)
	if err != nil {
		return nil, err
	}
	if clock == nil { // it is not ours alone, and may be far
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	p, err := plan.ReadPast(ctx, l, clock)
	if clock == nil && errors.Is(err, quota.ErrOutage) {
		err = &absentError{err}
	}
	return p, err
}
