package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Life is how long a lease on a server outlives a process that dies with it. Its
// holder renews it three times as often.
const Life = 30 * time.Second

// Server keeps leases for the processes of many machines, each under a name and by its
// own clock. redisstore's Store is one.
type Server interface {
	// TakeLease gives the lease of a name to a holder for a time, if nobody has it. The
	// token is above all that were given before. If another has it, the error is an
	// [ErrHeld] and names the holder. If the server cannot be reached, the error is a
	// [quota.ErrOutage].
	TakeLease(ctx context.Context, name, holder string, life time.Duration) (token int64, err error)
	// KeepLease prolongs a lease from now on, or gives it back if life is 0. It reports
	// whether the lease was still held under this token.
	KeepLease(ctx context.Context, name string, token int64, life time.Duration) (held bool, err error)
}

// Shared locks by leases on a server. Calls may still be admitted while the server is
// down, so then Files at least keep the processes of this machine apart, also from one
// that has a lease. The tokens stop a process that was overtaken meanwhile.
type Shared struct {
	Server Server
	Files  Files
}

var _ Locker = Shared{}

// Lock implements [Locker]. The lease is renewed until it is given back.
func (s Shared) Lock(ctx context.Context, name string) (Lock, error) {
	if s.Server == nil {
		return nil, quota.BadInput("lock %s: say on which server", name)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	asked := quota.SystemClock{}.Now()
	token, err := s.take(ctx, name, fmt.Sprintf("process %d on %s", os.Getpid(), host))
	switch {
	case errors.Is(err, quota.ErrOutage):
		return s.Files.Lock(ctx, name)
	case err != nil:
		return nil, err
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &lease{server: s.Server, name: name, token: token, lost: make(chan struct{}), stop: stop}
	if s.Files != "" {
		l.file, _ = s.Files.Lock(ctx, name) // a process that was overtaken may still have it
	}
	l.done.Go(func() { l.renew(renewing, asked.Add(Life)) })
	return l, nil
}

// grace is how long a caller that was told to stop waits for the answer of the server.
const grace = 500 * time.Millisecond

// take asks the server for the lease. If the caller is told to stop meanwhile, the server
// may have given the lease already: then it is given back.
func (s Shared) take(ctx context.Context, name, holder string) (int64, error) {
	type answer struct {
		token int64
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), Life)
		defer cancel()
		token, err := s.Server.TakeLease(within, name, holder, Life)
		answers <- answer{token, err}
	}()
	giveBack := func(a answer) {
		if a.err == nil {
			_, _ = s.Server.KeepLease(context.WithoutCancel(ctx), name, a.token, 0) // or it ends by itself
		}
	}
	select {
	case a := <-answers:
		if ctx.Err() == nil {
			return a.token, a.err
		}
		giveBack(a)
		return 0, context.Cause(ctx)
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		giveBack(a)
	case <-time.After(grace):
		go func() { giveBack(<-answers) }()
	}
	return 0, context.Cause(ctx)
}

// lease is held by one process at a time, on whatever machine.
type lease struct {
	server Server
	name   string
	token  int64
	file   Lock // for an outage; nil if it could not be had
	lost   chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func (l *lease) Token() int64          { return l.token }
func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Unlock() error {
	l.stop()
	l.done.Wait()
	var err error
	if l.file != nil {
		err = l.file.Unlock() // first, so that the next holder can have it
	}
	if _, failed := l.server.KeepLease(context.Background(), l.name, l.token, 0); failed != nil {
		err = errors.Join(err, fmt.Errorf("give the lease back: %w", failed))
	}
	return err
}

// renew prolongs the lease until it is given back or lost. As it does not know when
// the server began to count, it believes in the lease only from when it asked.
func (l *lease) renew(ctx context.Context, ends time.Time) {
	clock := quota.SystemClock{}
	for {
		if clock.Sleep(ctx, min(Life/3, ends.Sub(clock.Now()))) != nil {
			return
		}
		began := clock.Now()
		within, cancel := context.WithDeadline(ctx, ends)
		held, err := l.server.KeepLease(within, l.name, l.token, Life)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && held:
			ends = began.Add(Life)
		case err == nil, !clock.Now().Before(ends):
			close(l.lost)
			return
		}
	}
}
