package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// patience is how long a plan waits for a ledger on a server: it can do without.
const patience = 3 * time.Second

// since takes what ledger and catalog know into a plan, and says what they do not. A
// plan that begins another day has the records only. Where there is a file and it cannot
// be read, or the price book is older than the ledger's, no plan would be one to go by;
// what is not there, or on a server that cannot be reached from here, it does without.
func since(ctx context.Context, s *settings.Settings, o *plan.Options, now bool) (notes []string, err error) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	var sketch *plan.Sketch
	err = session.Inspect(ctx, s, func(c plan.Source) (err error) {
		sketch, err = plan.ReadSketch(ctx, c, s.List(), quota.NewSimClock(o.From))
		return err
	})
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
	o.Past, err = past(ctx, s, o.From)
	var absent *absentError
	switch {
	case errors.As(err, &absent):
		note("nothing is taken to be spent so far: %s", err)
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
		return ctx.Err()
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
