package meter

import (
	"context"
	"sync"
)

const (
	mostWorkers = 8
	mostQueued  = 1000
)

// later runs settlements, so that no caller waits for the ledger at the end of an answer.
// Its goroutines end when there is nothing to do, so it needs no end itself. There are a
// few of them, and what waits for them is bounded: beyond that the caller does the work.
type later struct {
	mu      sync.Mutex
	todo    []func()
	workers int
	idle    chan struct{} // closed when nothing is left; nil: nobody waits for that
}

func (l *later) do(f func()) {
	l.mu.Lock()
	switch {
	case l.workers < mostWorkers:
		l.workers++
		l.mu.Unlock()
		go l.work(f)
	case len(l.todo) < mostQueued:
		l.todo = append(l.todo, f)
		l.mu.Unlock()
	default:
		l.mu.Unlock()
		f()
	}
}

func (l *later) work(f func()) {
	for {
		f()
		l.mu.Lock()
		if len(l.todo) == 0 {
			if l.workers--; l.workers == 0 && l.idle != nil {
				close(l.idle)
				l.idle = nil
			}
			l.mu.Unlock()
			return
		}
		f, l.todo = l.todo[0], l.todo[1:]
		l.mu.Unlock()
	}
}

// wait waits until nothing is left to do.
func (l *later) wait(ctx context.Context) error {
	l.mu.Lock()
	if l.workers == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
