package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// watcher compares the ledger with Google's own count again and again.
type watcher struct {
	every time.Duration
	round func(context.Context) ([]*counted, error)
	log   *slog.Logger
	clock func() time.Time
	tells *view.Counting // gets the outcome of each round

	failed string               // the last error that was logged
	limits map[quota.Pool]int64 // that were logged
}

// watchCounts begins to watch, if the settings say so. A setting that cannot work is an error at once.
func (a *app) watchCounts(ctx context.Context, s *settings, l *quota.Ledger, done *closers) error {
	w, err := a.newWatcher(ctx, s, l)
	if w == nil || err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx)
	}()
	done.add(func() error { stop(); <-ended; return nil })
	return nil
}

// countOnce compares once before runs that do not stay.
func (a *app) countOnce(ctx context.Context, s *settings, l *quota.Ledger) error {
	w, err := a.newWatcher(ctx, s, l)
	if w != nil && err == nil {
		w.once(ctx)
	}
	return err
}

func (a *app) newWatcher(ctx context.Context, s *settings, l *quota.Ledger) (*watcher, error) {
	if !s.Watch {
		return nil, nil
	}
	c, err := a.newCounts(ctx, s, l)
	if err != nil {
		return nil, err
	}
	return &watcher{
		every: s.WatchEvery, log: a.log, clock: a.now, tells: &a.counting,
		round: func(ctx context.Context) ([]*counted, error) { return c.round(ctx, a.now()) },
	}, nil
}

func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		w.once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once compares once. It logs an error when it is news, and each limit once.
func (w *watcher) once(ctx context.Context) {
	all, err := w.round(ctx)
	if ctx.Err() != nil {
		return
	}
	w.tells.Counted(w.clock(), err)
	switch {
	case err != nil && err.Error() != w.failed:
		w.failed = err.Error()
		w.log.Warn("Google's own count cannot be read", "error", err, "again_in", span(w.every))
	case err == nil && w.failed != "":
		w.failed = ""
		w.log.Info("Google's own count can be read again")
	}
	for _, one := range all {
		if limit := one.count.Limit; one.count.Limited && limit != one.quota && w.limits[one.pool] != limit {
			if w.limits == nil {
				w.limits = map[quota.Pool]int64{}
			}
			w.limits[one.pool] = limit
			w.log.Warn("Google reports another limit than the price book", "pool", one.pool.String(), "limit", limit, "quota", one.quota)
		}
	}
}
