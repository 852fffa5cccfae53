package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// hung is a store that answers only when the caller's context has ended.
type hung struct{ quota.Store }

func (hung) Reserve(ctx context.Context, _ quota.Request) (quota.Verdict, error) {
	<-ctx.Done()
	return quota.Verdict{}, ctx.Err()
}

func (hung) Look(ctx context.Context, _ []quota.Charge) ([]quota.PageState, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A deadline that passes while the store works is an outage. A cancelled context is not:
// its caller knows why there is no answer.
func TestADeadlineThatPassesInTheStoreIsAnOutage(t *testing.T) {
	l, err := quota.New(mustParse(t, testBook), hung{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(context.Context) error{
		"reserve": func(ctx context.Context) error { _, err := l.Reserve(ctx, units(1)); return err },
		"usage":   func(ctx context.Context) error { _, err := l.Usage(ctx, "", ""); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := ask(ctx); !errors.Is(err, quota.ErrOutage) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want an outage", name, err)
		}
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if err := ask(ctx); errors.Is(err, quota.ErrOutage) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want that it was cancelled", name, err)
		}
	}
}

// A deadline that passed before the call is no outage, because the call never asked the
// ledger.
func TestADeadlineThatHasPassedIsNoOutage(t *testing.T) {
	l, err := quota.New(mustParse(t, testBook), hung{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, ask := range map[string]func() error{
		"reserve": func() error { _, err := l.Reserve(ctx, units(1)); return err },
		"usage":   func() error { _, err := l.Usage(ctx, "", ""); return err },
		"spend":   func() error { _, err := l.Spend(ctx, quota.SpendQuery{}); return err },
		"adjust":  func() error { _, err := l.Adjust(ctx, pool, 1, "tried"); return err },
		"block":   func() error { return l.BlockFor(ctx, pool, time.Hour, "no") },
		"unblock": func() error { return l.Unblock(ctx, pool) },
	} {
		if err := ask(); errors.Is(err, quota.ErrOutage) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want its own deadline", name, err)
		}
	}
}
