package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// quietHandler leaves out what River says about its daily work. While the database is down,
// each part of River reports that again and again: it passes on one report a minute.
type quietHandler struct {
	slog.Handler
	*terse
}

// terse is when something was said last.
type terse struct {
	clock quota.Clock
	mu    sync.Mutex
	said  time.Time
}

// may reports whether it may be said again.
func (t *terse) may() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if now.Sub(t.said) < time.Minute {
		return false
	}
	t.said = now
	return true
}

func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.may() {
		return nil
	}
	ours := slog.NewRecord(r.Time, slog.LevelWarn, "the queue has trouble with its database; it tries again, and reports at most once a minute", r.PC)
	ours.AddAttrs(slog.String("report", r.Message))
	r.Attrs(func(a slog.Attr) bool { ours.AddAttrs(a); return true })
	return h.Handler.Handle(ctx, ours)
}

func (h quietHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(a), h.terse}
}

func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name), h.terse}
}

func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// persist tries until it succeeds or the context ends. It logs the first failure, and then
// one a minute.
func (f *Fleet) persist(ctx context.Context, doing string, try func() error) error {
	var told time.Time
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := try()
		if err == nil {
			if !told.IsZero() {
				f.log.Info("the database answers again", "for", doing)
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.clock.Now().Sub(told) > time.Minute {
			f.log.Warn("cannot "+doing+"; trying again", "error", err)
			told = f.clock.Now()
		}
		if f.clock.Sleep(ctx, wait) != nil {
			return context.Cause(ctx)
		}
	}
}
