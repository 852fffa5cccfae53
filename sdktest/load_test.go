package sdktest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// load is what callers want of an upstream: more than there is.
type load struct {
	callers int           // in each process
	span    time.Duration // no call begins after it
	call    func(ctx context.Context, p *process, r *rand.Rand) error
}

// drive lets the callers of all processes call until the span is over, and then calls
// done at once, while calls are still in flight. It returns when all calls have ended.
func (l load) drive(t *testing.T, fleet []*process, done func()) {
	t.Helper()
	begun := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i, p := range fleet {
		for j := range l.callers {
			r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() {
				for time.Since(begun) < l.span {
					if err := l.call(ctx, p, r); err != nil && !ended(err) {
						t.Errorf("after %s: %v", time.Since(begun), err)
						return
					}
				}
			})
		}
	}
	time.Sleep(l.span)
	done()
	wg.Wait()
}
