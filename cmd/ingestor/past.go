package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// patience is how long a plan waits for a ledger on a server: it can do without.
const patience = 3 * time.Second

// since takes what ledger and catalog know into a plan, and says what they do not. A
// plan that begins another day has the records only.
func (a *app) since(ctx context.Context, s *settings, o *plan.Options, now bool) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	sketch, err := sketched(ctx, s.Catalog, o.From)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		note("there is no catalog yet: work has as many pages as it has in the simulated upstream")
	case err != nil:
		note("the catalog cannot be read, and work has as many pages as it has in the simulated upstream: %s", err)
	default:
		runs, err := sketch.Runs(ctx, catalog.RunsQuery{Limit: 1 << 20})
		if err != nil {
			note("the runs cannot be read: %s", err)
		}
		if o.Records = plan.Recorded(runs); now {
			o.History = sketch
		}
		notes = append(notes, failing(o.Records)...)
	}
	if !now {
		note("the plan begins another day: nothing was spent before, and all work is to be done")
		return notes
	}
	if o.Past, err = a.past(ctx, s, o.From); err != nil {
		note("nothing is taken to be spent so far: %s", err)
	} else if len(o.Past.Spent) > 0 && !strings.HasPrefix(s.Ledger, "sqlite:") {
		note("this ledger says what was spent, and not when: all that does not come back next is taken to be spread over the day")
	}
	return notes
}

// failing says what is taken to go on failing.
func failing(records map[plan.Work]plan.Record) (notes []string) {
	for work, r := range records {
		if r.Failing {
			notes = append(notes, fmt.Sprintf("%s of %s has failed in its last runs, and is taken to go on so", plain(work.Work), work.Job))
		}
	}
	slices.Sort(notes)
	return notes
}

// past is what the ledger says was spent before a time. It changes nothing in it: a
// file is copied first.
func (a *app) past(ctx context.Context, s *settings, now time.Time) (_ *plan.Past, err error) {
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	var store quota.Store
	var clock *quota.SimClock
	switch scheme, rest, _ := strings.Cut(s.Ledger, ":"); scheme {
	case "sqlite":
		clock = quota.NewSimClock(now)
		store, err = copied(ctx, rest, clock, &done)
	case "redis", "rediss", "unix":
		var shared *redisstore.Store
		if shared, err = redisstore.Open(s.Ledger, nil); err == nil {
			store = shared
			done.add(shared.Close)
		}
	default:
		return nil, errors.New("a ledger in memory has nothing to tell")
	}
	if err != nil {
		return nil, err
	}
	l, err := quota.New(s.book, store, nil)
	if err != nil {
		return nil, err
	}
	if clock == nil { // it is not ours alone, and may be far
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	return plan.PastOf(ctx, l, clock)
}

// copied opens a copy of the ledger in a file.
func copied(ctx context.Context, path string, clock quota.Clock, done *closers) (quota.Store, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no ledger %s yet", path)
	}
	dir, err := os.MkdirTemp("", "ingestor-plan-")
	if err != nil {
		return nil, err
	}
	done.add(func() error { return os.RemoveAll(dir) })
	to := filepath.Join(dir, "ledger.db")
	if err := sqlitefile.Snapshot(ctx, path, to); err != nil {
		return nil, fmt.Errorf("copy the ledger %s: %w", path, err)
	}
	store, err := sqlitestore.Open(ctx, to, &sqlitestore.Options{Clock: clock})
	if err == nil {
		done.add(store.Close)
	}
	return store, err
}

// sketched is a sketch of the catalog in a file; fs.ErrNotExist says that there is none.
func sketched(ctx context.Context, path string, now time.Time) (*catalog.Sketch, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return catalog.SketchOf(ctx, path, quota.NewSimClock(now))
}
