package pagestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// lanes run transactions apart from their callers, because a caller may leave while a
// server does not answer. A lane is there while its account has callers.
type lanes struct {
	mu      sync.Mutex
	closed  bool
	open    map[laneKey]*lane
	running sync.WaitGroup
}

// laneKey is what a backend locks: two accounts, or two families, never wait for each other.
type laneKey struct {
	upstream, account string
	family            bool
}

// lane holds the callers that come while a transaction of their account is under way.
type lane struct {
	key     laneKey
	waiting []*job
}

// key returns the lane of a job. Tokens of slots may be of several accounts: the backend
// locks them all.
func (j *job) key() laneKey {
	switch {
	case len(j.request.Charges) > 0:
		return keyOf(&j.request.Charges[0].Pool)
	case len(j.block.Charges) > 0:
		return keyOf(&j.block.Charges[0].Pool)
	case len(j.tokens) > 0:
		return laneKey{upstream: j.tokens[0].Upstream, account: j.tokens[0].Account}
	}
	return laneKey{upstream: j.token.Upstream, account: j.token.Account}
}

func keyOf(p *quota.Pool) laneKey {
	return laneKey{upstream: p.Upstream, account: p.Account, family: p.Name == ""}
}

// own copies all that belongs to the job's caller, who may leave before the job is done.
func (j *job) own() {
	j.request.Charges, j.block.Charges = slices.Clone(j.request.Charges), slices.Clone(j.block.Charges)
	j.tokens, j.units = slices.Clone(j.tokens), maps.Clone(j.units)
}

// join runs a job in the next transaction of its lane.
func (s *Store) join(ctx context.Context, j *job) error {
	late := time.NewTimer(s.options.Combine)
	defer late.Stop()
	j.own()
	j.wake = make(chan struct{})
	at := s.enter(j)
	if at == nil {
		return fmt.Errorf("write to %s: %w", s.options.Name, ErrClosed)
	}
	var err error
	select {
	case <-j.wake:
		if j.panicked != nil {
			panic(j.panicked)
		}
		return j.err
	case <-ctx.Done():
		if s.lanes.leave(at, j, !storekit.RunsApart(ctx)) {
			return ctx.Err()
		}
		<-j.wake // both at the same moment
		return j.err
	case <-late.C:
		err = fmt.Errorf("%s did not answer in time, %s at most: %w", s.options.Name, s.options.Combine.Round(time.Millisecond), context.DeadlineExceeded)
	}
	s.lanes.leave(at, j, false)
	return err
}

// enter puts a job into its lane, and starts the lane if it is not there. It returns nil
// after Close.
func (s *Store) enter(j *job) *lane {
	l, key := &s.lanes, j.key()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	at := l.open[key]
	if at == nil {
		at = &lane{key: key}
		if l.open == nil {
			l.open = make(map[laneKey]*lane)
		}
		l.open[key] = at
		l.running.Go(func() { s.runLane(at) })
	}
	at.waiting = append(at.waiting, j)
	return at
}

// runLane runs the transactions of a lane until no caller waits.
func (s *Store) runLane(at *lane) {
	for w := s.newWork(); s.lanes.goesOn(at); {
		s.share(w, at)
	}
}

// share runs one transaction for the callers that wait when it has its locks.
func (s *Store) share(w *work, at *lane) {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Deadline)
	defer cancel()
	w.batch = nil
	defer func() { // no caller waits for ever
		if panicked := recover(); panicked != nil && len(w.batch) > 0 {
			w.batch[0].panicked = panicked
		}
		s.lanes.ended(at, w.batch)
	}()
	tx, err := s.backend.Begin(ctx, 0)
	w.batch = s.lanes.take(at)
	if err != nil {
		for _, j := range w.batch {
			j.tell(err, true)
		}
		return
	}
	w.transact(ctx, tx, func(loaded *Scope, most int) []*job { return s.lanes.takeLoaded(at, loaded, most) })
}

// goesOn reports whether a caller waits. If none does, the lane ends.
func (l *lanes) goesOn(at *lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(at.waiting) > 0 {
		return true
	}
	delete(l.open, at.key)
	return false
}

// take removes the callers that share a transaction from a lane.
func (l *lanes) take(at *lane) []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(maxCombined, len(at.waiting))
	taken := slices.Clone(at.waiting[:n])
	at.waiting = slices.Delete(at.waiting, 0, n)
	return taken
}

// takeLoaded removes up to most callers from a lane that need only the pages of a scope.
func (l *lanes) takeLoaded(at *lane, loaded *Scope, most int) (taken []*job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at.waiting = slices.DeleteFunc(at.waiting, func(j *job) bool {
		if len(taken) == most || !loaded.covers(&j.request) {
			return false
		}
		taken = append(taken, j)
		return true
	})
	return taken
}

// covers reports whether a request is new and all its pages are in the scope.
func (s *Scope) covers(r *quota.Request) bool {
	if len(r.Charges) == 0 || r.ID != "" && !r.Fresh {
		return false
	}
	for i := range r.Charges {
		if !slices.ContainsFunc(s.Charges, func(c quota.Charge) bool { return c.Pool == r.Charges[i].Pool }) {
			return false
		}
	}
	return true
}

// leave removes a caller that no longer waits. If its transaction has begun, it leaves its
// job there, and release says that nobody wants what is granted. It returns false if the job is done.
func (l *lanes) leave(at *lane, j *job, release bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(at.waiting, j); i >= 0 {
		at.waiting = slices.Delete(at.waiting, i, i+1)
	}
	j.left = release
	return !j.done
}

// ended wakes callers whose jobs are done. A grant to a caller that has left, under an id that
// nobody else knows, is released in the lane's next transaction.
func (l *lanes) ended(at *lane, batch []*job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range batch {
		j.done = true
		close(j.wake)
		if t := j.verdict.Token(); j.left && j.err == nil && j.request.Fresh && t.ID != "" {
			at.waiting = append(at.waiting, &job{do: (*work).settle, token: t, wake: make(chan struct{})})
		}
	}
}

// close fails the callers that wait, and waits for the transactions under way. Later
// callers get [ErrClosed].
func (l *lanes) close() {
	l.mu.Lock()
	l.closed = true
	for _, at := range l.open {
		for _, j := range at.waiting {
			j.done, j.err = true, ErrClosed
			close(j.wake)
		}
		at.waiting = nil
	}
	l.mu.Unlock()
	l.running.Wait()
}
