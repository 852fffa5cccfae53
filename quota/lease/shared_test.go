package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

func start(t *testing.T) *redistest.Server {
	t.Helper()
	s, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// machine is a place with leases on the server, and files of its own.
func machine(t *testing.T, addr string) lease.Shared {
	t.Helper()
	store, err := redisstore.Open("redis://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return lease.Shared{Server: store, Files: lease.Files(t.TempDir())}
}

func TestLease(t *testing.T) {
	s := start(t)
	one, two := machine(t, s.Addr), machine(t, s.Addr)
	first, err := one.Lock(t.Context(), "default/charts")
	if err != nil {
		t.Fatal(err)
	}
	held := regexp.MustCompile(fmt.Sprintf(`^another process runs this job: default/charts is held by process %d on \S+, until \d\d:\d\d:\d\d UTC at the latest if it has died$`, os.Getpid()))
	if _, err := two.Lock(t.Context(), "default/charts"); !errors.Is(err, lease.ErrHeld) || !held.MatchString(err.Error()) {
		t.Fatalf("a lease that is held: %v", err)
	}
	if other, err := two.Lock(t.Context(), "default/other"); err != nil {
		t.Fatal(err)
	} else if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	second, err := two.Lock(t.Context(), "default/charts")
	if err != nil {
		t.Fatal(err)
	}
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d: it must rise with each holder", second.Token(), first.Token())
	}
	// the process behind it dies: after its life another one has it
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = client.Close() })
	keys, err := client.Keys(t.Context(), "*charts*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v: %v", keys, err)
	}
	if err := client.HSet(t.Context(), keys[0], "until", time.Now().Add(-time.Second).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	third, err := one.Lock(t.Context(), "default/charts")
	if err != nil || third.Token() <= second.Token() {
		t.Fatalf("token %v: %v", third, err)
	}
	if err := second.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Lock(t.Context(), "default/charts"); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("who has lost a lease must not give back another's: %v", err)
	}
	if err := third.Unlock(); err != nil {
		t.Fatal(err)
	}
	// it was taken while the server's clock was far ahead
	if err := client.HSet(t.Context(), keys[0], "until", time.Now().AddDate(70, 0, 0).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	fourth, err := two.Lock(t.Context(), "default/charts")
	if err != nil {
		t.Fatalf("a clock that had been far ahead shut the job: %v", err)
	}
	if err := fourth.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestSharedWithoutAServer(t *testing.T) {
	if _, err := (lease.Shared{Files: lease.Files(t.TempDir())}).Lock(t.Context(), "a"); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("a lock without a server: %v", err)
	}
}

// In an outage of the server the processes of one machine still keep apart.
func TestLeaseInAnOutage(t *testing.T) {
	s := start(t)
	one := machine(t, s.Addr)
	s.Kill()
	lock, err := one.Lock(t.Context(), "default/charts")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Lock(t.Context(), "default/charts"); !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), string(one.Files)) {
		t.Errorf("another process of this machine: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

// A job that began before an outage is not run by another process of this machine meanwhile.
func TestLeaseOfBeforeAnOutage(t *testing.T) {
	s := start(t)
	one := machine(t, s.Addr)
	lock, err := one.Lock(t.Context(), "default/charts")
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, err := one.Lock(t.Context(), "default/charts"); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("another process of this machine: %v", err)
	}
	_ = lock.Unlock() // the server is gone
	next, err := one.Lock(t.Context(), "default/charts")
	if err != nil {
		t.Fatalf("after the job has ended: %v", err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// server gives a lease to whoever asks, and keeps it as it is told.
type server struct{ keep func() (bool, error) }

func (server) TakeLease(context.Context, string, string, time.Duration) (int64, error) {
	return 1, nil
}

func (s server) KeepLease(context.Context, string, int64, time.Duration) (bool, error) {
	return s.keep()
}

func TestLeaseIsLost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		keep  func() (bool, error)
		after time.Duration
	}{
		{"at the next renewal if another has it", func() (bool, error) { return false, nil }, lease.Life / 3},
		{"at the end of its life if the server is silent", func() (bool, error) { return false, errors.New("no answer") }, lease.Life},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				lock, err := lease.Shared{Server: server{tt.keep}}.Lock(t.Context(), "default/charts")
				if err != nil {
					t.Fatal(err)
				}
				<-lock.Lost()
				if after := time.Since(began); after != tt.after {
					t.Errorf("lost after %s, want %s", after, tt.after)
				}
				_ = lock.Unlock() // a lease that is lost cannot be given back
			})
		})
	}
}

func TestLeaseIsRenewedUntilItIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept atomic.Int64
		var clock quota.SystemClock
		lock, err := lease.Shared{Server: server{func() (bool, error) { kept.Add(1); return true, nil }}}.Lock(t.Context(), "default/charts")
		if err != nil {
			t.Fatal(err)
		}
		if err := clock.Sleep(t.Context(), 10*lease.Life+time.Second); err != nil {
			t.Fatal(err)
		}
		if n := kept.Load(); n != 30 {
			t.Errorf("renewed %d times in ten lives, want 30", n)
		}
		select {
		case <-lock.Lost():
			t.Error("a lease that is renewed was lost")
		default:
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if n := kept.Load(); n != 31 {
			t.Errorf("kept %d times: it was not given back once", n)
		}
	})
}

// stopper is a server whose caller is told to stop when the lease was just given.
type stopper struct {
	lease.Server
	stop context.CancelFunc
}

func (s stopper) TakeLease(ctx context.Context, name, holder string, life time.Duration) (int64, error) {
	token, err := s.Server.TakeLease(ctx, name, holder, life)
	s.stop()
	if ctx.Err() != nil { // as a client would that waits for the answer
		return 0, fmt.Errorf("%w: %w", quota.ErrOutage, ctx.Err())
	}
	return token, err
}

// A process that is told to stop while it asks for a lease does not leave with it: the
// next one would have to wait until the lease ends.
func TestALeaseThatCameTooLateIsGivenBack(t *testing.T) {
	s := start(t)
	one, two := machine(t, s.Addr), machine(t, s.Addr)
	ctx, stop := context.WithCancel(t.Context())
	one.Server = stopper{one.Server, stop}
	if l, err := one.Lock(ctx, "default/charts"); !errors.Is(err, context.Canceled) || errors.Is(err, quota.ErrOutage) {
		t.Errorf("asked for while the caller was told to stop: %v, %v", l, err)
	}
	l, err := two.Lock(t.Context(), "default/charts")
	if err != nil {
		t.Fatalf("the next one: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// silent is a server that never answers.
type silent struct{ lease.Server }

func (silent) TakeLease(ctx context.Context, _, _ string, _ time.Duration) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// A server that does not answer holds up nobody who was told to stop.
func TestASilentServerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		_, err := lease.Shared{Server: silent{}, Files: lease.Files(t.TempDir())}.Lock(ctx, "default/charts")
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 2*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		time.Sleep(lease.Life) // until nobody asks any more
	})
}
