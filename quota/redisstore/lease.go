package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// ErrLeased says that another process holds the lease.
var ErrLeased = errors.New("another process holds the lease")

// LeaseLife is how long a lease outlives a process that dies with it; while it
// lives it renews it three times as often.
const LeaseLife = 30 * time.Second

// Lease is held by one process at a time, on whatever machine. Nothing in Redis
// can keep a process that was asleep from writing elsewhere after its lease has
// ended: what it protects compares tokens.
type Lease struct {
	store *Store
	key   string
	token string
	lost  chan struct{}
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// Lease takes the lease of a name, without waiting: [ErrLeased] if it is held. The
// holder is for people: who has it. It is renewed until it is given back.
func (s *Store) Lease(ctx context.Context, name, holder string) (*Lease, error) {
	l := &Lease{store: s, key: leaseKey(s.prefix, name), lost: make(chan struct{})}
	asked := quota.SystemClock{}.Now()
	reply, err := s.eval(ctx, s.scripts.leaseTake, []string{l.key}, []any{holder, LeaseLife.Microseconds()})
	switch {
	case err != nil:
		return nil, fmt.Errorf("lease %s: %w: %w", name, quota.ErrOutage, err)
	case len(reply) < 2:
		return nil, fmt.Errorf("lease %s: redis answered %v", name, reply)
	case integer(reply[0]) == 0 && len(reply) > 2:
		until := time.UnixMicro(integer(reply[2])).UTC().Format("15:04:05")
		return nil, fmt.Errorf("%s: %w: held by %v, until %s UTC at the latest if it has died", name, ErrLeased, reply[1], until)
	}
	l.token = fmt.Sprint(reply[1])
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.done.Go(func() { l.renew(renewing, asked.Add(LeaseLife)) })
	return l, nil
}

// Token is higher with each holder.
func (l *Lease) Token() int64 {
	n, _ := strconv.ParseInt(l.token, 10, 64) // a script of ours wrote it
	return n
}

// Lost is closed when the lease is gone, or may be, while it should be held.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Unlock gives the lease back.
func (l *Lease) Unlock() error {
	l.stop()
	l.done.Wait()
	if _, err := l.keep(context.Background(), 0); err != nil {
		return fmt.Errorf("give the lease back: %w", err)
	}
	return nil
}

// renew prolongs the lease until it is given back or lost. As it does not know when
// the server began to count, it believes in the lease only from when it asked.
func (l *Lease) renew(ctx context.Context, ends time.Time) {
	clock := quota.SystemClock{}
	for {
		if clock.Sleep(ctx, min(LeaseLife/3, ends.Sub(clock.Now()))) != nil {
			return
		}
		began := clock.Now()
		within, cancel := context.WithDeadline(ctx, ends)
		held, err := l.keep(within, LeaseLife)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && held:
			ends = began.Add(LeaseLife)
		case err == nil, !clock.Now().Before(ends):
			close(l.lost)
			return
		}
	}
}

func (l *Lease) keep(ctx context.Context, life time.Duration) (held bool, err error) {
	reply, err := l.store.eval(ctx, l.store.scripts.leaseKeep, []string{l.key}, []any{l.token, life.Microseconds()})
	if err != nil {
		return false, err
	}
	return integer(reply[0]) == 1, nil
}
