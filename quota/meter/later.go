package meter

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	mostWorkers = 8
	mostQueued  = 1000
)

// later runs settlements and blocks, so that no caller waits for the ledger while it reads an
// answer.
// Its goroutines end when there is nothing to do, so it needs no end itself. There are a
// few of them, and what waits for them is bounded: beyond that the caller does the work.
type later struct {
	mu      sync.Mutex
	todo    []func()
	workers int
	open    map[chan struct{}]struct{} // of jobs that have begun: closed at their end
	busy    atomic.Int64               // their number
	done    atomic.Uint64              // jobs that have ended
}

func (l *later) do(f func()) {
	ended := make(chan struct{})
	job := func() {
		f()
		l.mu.Lock()
		delete(l.open, ended)
		l.mu.Unlock()
		l.done.Add(1)
		l.busy.Add(-1)
		close(ended)
	}
	l.mu.Lock()
	if l.open == nil {
		l.open = make(map[chan struct{}]struct{})
	}
	l.open[ended] = struct{}{}
	l.busy.Add(1)
	switch {
	case l.workers < mostWorkers:
		l.workers++
		l.mu.Unlock()
		go l.work(job)
	case len(l.todo) < mostQueued:
		l.todo = append(l.todo, job)
		l.mu.Unlock()
	default:
		l.mu.Unlock()
		job()
	}
}

func (l *later) work(f func()) {
	for {
		f()
		l.mu.Lock()
		if len(l.todo) == 0 {
			l.workers--
			l.mu.Unlock()
			return
		}
		f, l.todo = l.todo[0], l.todo[1:]
		l.mu.Unlock()
	}
}

// wait waits for the jobs that have begun by now.
func (l *later) wait(ctx context.Context) error {
	if l.busy.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, ended := range open {
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// settled says that a call is settled, or will not be.
func (p *priced) settled() {
	if p != nil {
		p.settling.end()
	}
}

// settling is whether a call is settled, and what waits for that.
type settling struct {
	mu    sync.Mutex
	over  bool
	waits []func()
}

func (s *settling) then(f func()) {
	s.mu.Lock()
	over := s.over
	if !over {
		s.waits = append(s.waits, f)
	}
	s.mu.Unlock()
	if over {
		f()
	}
}

func (s *settling) end() {
	s.mu.Lock()
	waits := s.waits
	s.over, s.waits = true, nil
	s.mu.Unlock()
	for _, f := range waits {
		f()
	}
}
