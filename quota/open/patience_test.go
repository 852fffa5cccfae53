package open_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// Impatient callers do not make a store behind a breaker count as down.
func TestPatienceBehindABreaker(t *testing.T) {
	for name, address := range map[string]string{
		"redis":    "redis://" + redisServer(t).Addr,
		"postgres": pgtest.Shared(t),
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"),
	} {
		t.Run(name, func(t *testing.T) {
			store, closer, err := open.Store(t.Context(), address, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := breaker.New(store, nil)
			storetest.Patience(t, s)
			if err := errors.Join(s.Close(), closer()); err != nil {
				t.Error(err)
			}
		})
	}
}

// patient asks with a deadline that is far away.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// Many callers that share a context which ends do not make a healthy server count as down.
func TestCallersThatShareADeadline(t *testing.T) {
	server := redisServer(t)
	with(t, "redis://"+server.Addr, options(t, t.TempDir()), func(o *open.Opened) {
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					for ctx.Err() == nil {
						if err := reserve(ctx, o); errors.Is(err, quota.ErrOutage) {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			cancel()
			if err := reserve(patient(t), o); errors.Is(err, quota.ErrOutage) {
				t.Error("a patient caller:", err)
			}
		}
	})
}

// A server that hangs is found out, although no caller waits for as long as its timeout.
func TestAServerThatHangsIsFoundOutByImpatientCallers(t *testing.T) {
	server := redisServer(t)
	with(t, "redis://"+server.Addr, options(t, t.TempDir()), func(o *open.Opened) {
		if err := reserve(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := server.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer server.Signal(syscall.SIGCONT)
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			err := reserve(ctx, o)
			cancel()
			if errors.Is(err, quota.ErrOutage) {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
	})
}
