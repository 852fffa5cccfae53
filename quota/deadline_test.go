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

func (hung) Block(ctx context.Context, _ quota.BlockRequest) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hung) Look(ctx context.Context, _ []quota.Charge) ([]quota.PageState, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// noJournal is a journal that must not be written.
type noJournal struct {
	quota.Journal
	t *testing.T
}

func (j noJournal) Pending(context.Context) ([]quota.Entry, error) { return nil, nil }

func (j noJournal) Admit(_ context.Context, e quota.Entry, _ int64) (quota.Admission, error) {
	j.t.Errorf("admitted: %+v", e)
	return quota.Admission{}, nil
}

func (j noJournal) Block(_ context.Context, e quota.Entry) error {
	j.t.Errorf("journaled: %+v", e)
	return nil
}

// A caller's deadline that passes while the store works says nothing about the store, and neither does a
// cancelled context. The call is neither refused nor admitted.
func TestADeadlineThatPassesInTheStoreIsTheCallers(t *testing.T) {
	l, err := quota.New(mustParse(t, testBook), hung{}, &quota.Options{Journal: noJournal{t: t}})
	if err != nil {
		t.Fatal(err)
	}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	admitted := units(1)
	admitted.Outage = quota.Admit
	for name, ask := range map[string]func(context.Context) error{
		"reserve": func(ctx context.Context) error { _, err := l.Reserve(ctx, units(1)); return err },
		"admit":   func(ctx context.Context) error { _, err := l.Reserve(ctx, admitted); return err },
		"wait":    func(ctx context.Context) error { _, err := l.Wait(ctx, admitted, time.Hour); return err },
		"hold":    func(ctx context.Context) error { _, err := l.Hold(ctx, admitted, 2); return err },
		"usage":   func(ctx context.Context) error { _, err := l.View().Usage(ctx, "", ""); return err },
		"block":   func(ctx context.Context) error { return l.BlockFor(ctx, pool, time.Hour, "no") },
	} {
		why := errors.New("the run is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, why)
		if err := ask(ctx); errors.Is(err, quota.ErrOutage) || errors.Is(err, quota.ErrRefused) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) {
			t.Errorf("%s: %v, want its own deadline", name, err)
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
		"usage":   func() error { _, err := l.View().Usage(ctx, "", ""); return err },
		"spend":   func() error { _, err := l.View().Spend(ctx, quota.SpendQuery{}); return err },
		"adjust":  func() error { _, err := l.Admin().Adjust(ctx, pool, 1, "tried"); return err },
		"block":   func() error { return l.BlockFor(ctx, pool, time.Hour, "no") },
		"unblock": func() error { return l.Admin().Unblock(ctx, pool) },
	} {
		if err := ask(); errors.Is(err, quota.ErrOutage) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want its own deadline", name, err)
		}
	}
}

// slowJournal is a journal whose caller gives up while it writes.
type slowJournal struct {
	noJournal
	leave context.CancelFunc
	err   error
}

func (j *slowJournal) Admit(context.Context, quota.Entry, int64) (quota.Admission, error) {
	j.leave()
	return quota.Admission{OK: j.err == nil}, j.err
}

// A caller that gives up while the journal is written has its own error, unless the call is admitted.
func TestACallerThatLeavesTheJournal(t *testing.T) {
	for _, fails := range []error{nil, errors.New("interrupted")} {
		ctx, cancel := context.WithCancel(t.Context())
		j := &slowJournal{noJournal{t: t}, cancel, fails}
		l, err := quota.New(mustParse(t, testBook), failing{}, &quota.Options{Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		call := units(1)
		call.Outage = quota.Admit
		r, err := l.Reserve(ctx, call)
		switch {
		case fails == nil && (err != nil || !r.Outage):
			t.Errorf("it is in the journal: %v", err)
		case fails != nil && (!errors.Is(err, context.Canceled) || errors.Is(err, quota.ErrOutage)):
			t.Errorf("it is not in the journal: %v, want that it was cancelled", err)
		}
	}
}
