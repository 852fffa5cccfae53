package meter

import (
	"context"
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
	begun   uint64              // jobs so far
	open    map[uint64]struct{} // jobs that are not done
	busy    atomic.Int64        // their number
	done    atomic.Uint64       // jobs that have ended
	ended   chan struct{}       // closed at the end of a job; nil: nobody waits for that
}

// do does a job.
func (l *later) do(f func()) {
	l.mu.Lock()
	if l.open == nil {
		l.open = make(map[uint64]struct{})
	}
	l.begun++
	n := l.begun
	l.open[n] = struct{}{}
	l.busy.Add(1)
	job := func() {
		f()
		l.end(n)
	}
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

func (l *later) end(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, n)
	l.done.Add(1)
	l.busy.Add(-1)
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
}

// wait waits for the jobs that have begun by now.
func (l *later) wait(ctx context.Context) (err error) {
	if l.busy.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for last := l.begun; l.before(last); {
		if l.ended == nil {
			l.ended = make(chan struct{})
		}
		ended := l.ended
		l.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if l.mu.Lock(); err != nil {
			return err
		}
	}
	return nil
}

// before reports whether a job is open that began no later than the last.
func (l *later) before(last uint64) bool {
	for n := range l.open {
		if n <= last {
			return true
		}
	}
	return false
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

// then does a job once the call is settled.
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
