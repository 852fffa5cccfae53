package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// patience bounds how long one operation waits for others: for those of this
// process, then for other processes. It is in real time, whatever the store's
// clock says.
type patience struct {
	s      *Store
	caller context.Context
	ctx    context.Context // of the wait; nil until something has to be waited for
	cancel context.CancelFunc
}

func (s *Store) patience(ctx context.Context) *patience { return &patience{s: s, caller: ctx} }

// wait returns the context of the wait.
func (p *patience) wait() context.Context {
	if p.ctx == nil {
		p.ctx, p.cancel = context.WithTimeout(p.caller, p.s.wait)
	}
	return p.ctx
}

func (p *patience) end() {
	if p.cancel != nil {
		p.cancel()
	}
}

var errClosed = errors.New("it was closed by this process")

// takeTurn takes the token out of turn.
func (p *patience) takeTurn(turn chan struct{}) error {
	var open bool
	select {
	case _, open = <-turn:
	default:
		select {
		case _, open = <-turn:
		case <-p.wait().Done():
			return p.over(nil)
		}
	}
	if !open {
		return errClosed
	}
	return nil
}

// The first and the longest pause between two tries. A transaction takes some
// hundred microseconds.
const (
	firstPause   = 50 * time.Microsecond
	longestPause = 2 * time.Millisecond
)

// retry does something until it is not busy. Its error is the doing's, the
// caller's context's, or says who may hold the file.
func (p *patience) retry(do func() error) error {
	err := do()
	for pause := firstPause; busy(err); pause = min(2*pause, longestPause) {
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-p.wait().Done():
			timer.Stop()
			return p.over(err)
		}
		err = do()
	}
	return err
}

// over says why there is no more patience.
func (p *patience) over(err error) error {
	if p.caller.Err() != nil {
		return p.caller.Err()
	}
	if err == nil {
		return fmt.Errorf("it was busy for %s: %s", p.s.wait, p.s.holders())
	}
	return fmt.Errorf("it was busy for %s: %s: %w", p.s.wait, p.s.holders(), err)
}
