package counting

import (
	"context"
	"log/slog"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// watcher compares the ledger with Google's own count again and again.
type watcher struct {
	every time.Duration
	round func(context.Context) ([]*Counted, error)
	log   *slog.Logger
	clock func() time.Time
	tells *view.Counting // gets the outcome of each round

	failed string               // the last error that was logged
	limits map[quota.Pool]int64 // that were logged
}

// WatchCounts begins to watch, if the settings say so. A setting that cannot work is an error at once.
func WatchCounts(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger, done *console.Closers) error {
	w, err := newWatcher(ctx, a, s, l)
	if w == nil || err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx)
	}()
	done.Add(func() error { stop(); <-ended; return nil })
	return nil
}

// CountOnce compares once before runs that do not stay.
func CountOnce(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger) error {
	w, err := newWatcher(ctx, a, s, l)
	if w != nil && err == nil {
		w.once(ctx)
	}
	return err
}

func newWatcher(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger) (*watcher, error) {
	if !s.Watch {
		return nil, nil
	}
	c, err := NewCounts(ctx, a, s, l)
	if err != nil {
		return nil, err
	}
	return &watcher{
		every: s.WatchEvery, log: a.Log, clock: a.Now, tells: &a.Counting,
		round: func(ctx context.Context) ([]*Counted, error) { return c.Round(ctx, a.Now()) },
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
		w.log.Warn("Google's own count cannot be read", "error", err, "again_in", console.Span(w.every))
	case err == nil && w.failed != "":
		w.failed = ""
		w.log.Info("Google's own count can be read again")
	}
	for _, one := range all {
		if limit := one.Count.Limit; one.Count.Limited && limit != one.Quota && w.limits[one.Pool] != limit {
			if w.limits == nil {
				w.limits = map[quota.Pool]int64{}
			}
			w.limits[one.Pool] = limit
			w.log.Warn("Google reports another limit than the price book", "pool", one.Pool.String(), "limit", limit, "quota", one.Quota)
		}
	}
}
