package pagestore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// ErrClosed is the error of calls to a store that its process has closed.
var ErrClosed = errors.New("it was closed by this process")

// maxCombined bounds the jobs of a transaction, and so how long one caller waits for others.
const maxCombined = 64

// queue holds callers while a transaction is under way. A leader runs a transaction for the
// callers that wait at that moment, and then the next. One of the callers leads, and hands the
// lead to the first caller that came later. With [Options.Deadline], a goroutine of its own leads
// while there are callers, because a caller may leave while a server does not answer.
type queue struct {
	key     queueKey
	work    *work // of the leader
	led     bool
	waiting []*job
	last    int           // callers of the transaction before
	took    time.Duration // by transactions, on average
}

// queues are the queues of a store: one, or with [Options.Deadline] one for each account and for
// each family that has callers.
type queues struct {
	mu      sync.Mutex
	one     queue
	open    map[queueKey]*queue
	closed  bool
	leaders sync.WaitGroup
}

// combine runs a job in a transaction, together with waiting jobs.
func (s *Store) combine(ctx context.Context, j *job) error {
	if s.options.Deadline != 0 {
		j.own()
	}
	q, leads, err := s.enter(j)
	waited := time.Duration(0)
	if err == nil && !leads {
		waited, err = s.wait(ctx, q, j)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("write to %s: %w", s.options.Name, err)
	case err != nil:
		return err
	case j.panicked != nil:
		panic(j.panicked)
	case j.done:
		return j.err
	}
	defer s.queues.leave(q)
	s.queues.gather(q)
	if err := s.share(ctx, q, waited, j); err != nil {
		return err
	}
	return j.err
}

// share runs one transaction for the leader, if that is a caller, and for the callers that wait
// when the transaction has begun. If it cannot begin, that is the error of the leader, or of all.
func (s *Store) share(ctx context.Context, q *queue, waited time.Duration, leader *job) error {
	began, w := quota.SystemClock{}.Now(), q.work
	w.batch = w.batch[:0]
	if leader == nil {
		defer func() { // a panic of a transaction that begins is that of the first caller, and not of this goroutine
			p := recover()
			if p == nil {
				return
			}
			w.batch = s.queues.take(q, w.batch)
			for i, j := range w.batch {
				if j.tell(errPanicked, true); i == 0 {
					j.panicked = p
				}
			}
			s.queues.ended(q, nil, quota.SystemClock{}.Now().Sub(began))
		}()
	}
	tx, err := s.backend.Begin(ctx, waited)
	if err != nil && leader != nil {
		return err
	}
	if leader != nil {
		w.batch = append(w.batch, leader)
	}
	w.batch = s.queues.take(q, w.batch)
	defer func() { // also after a panic, so that no caller waits for ever
		if leader == nil && len(w.batch) > 0 {
			w.batch[0].panicked = recover()
		}
		s.queues.ended(q, leader, quota.SystemClock{}.Now().Sub(began))
	}()
	switch {
	case err != nil:
		for _, j := range w.batch {
			j.tell(err, true)
		}
	case leader == nil:
		w.transact(ctx, tx, func(loaded *Scope, most int) []*job { return s.queues.takeLoaded(q, loaded, most) })
	default:
		w.transact(ctx, tx, nil)
	}
	return nil
}

// lead runs the transactions of a queue apart from its callers, until none waits.
func (s *Store) lead(q *queue) {
	for q.work = s.newWork(); s.queues.goesOn(q); {
		ctx, cancel := context.WithTimeout(context.Background(), s.options.Deadline)
		_ = s.share(ctx, q, 0, nil) // the callers have the error
		cancel()
	}
}

// transact decides the jobs of the batch in turn, in a transaction that has begun. Each gets
// its own answer, or the error of the transaction. If late is not nil, it returns jobs that
// came while the locks were waited for and need nothing that is not loaded.
func (w *work) transact(ctx context.Context, tx Tx, late func(*Scope, int) []*job) {
	failed, undone, panicked := errPanicked, true, true
	defer func() {
		for _, j := range w.batch {
			j.tell(failed, undone)
		}
		if panicked {
			_ = tx.End(failed)
		}
	}()
	w.scope.name(w.batch)
	w.begin(tx, tx.Load(&w.scope))
	if late != nil && w.broken == nil {
		w.batch = append(w.batch, late(&w.scope, maxCombined-len(w.batch))...)
	}
	for _, j := range w.batch {
		if w.broken == nil {
			j.err = j.do(w, tx, j)
		}
	}
	failed = tx.End(w.broken)
	panicked = false
	if undone = failed != nil; !undone {
		failed = w.births.remember(context.WithoutCancel(ctx), w.saved)
	}
}

// errPanicked is the error of callers that shared a transaction with one that panicked.
var errPanicked = errors.New("another call in the same transaction panicked; nothing was written")

// tell gives a job the error of its transaction. If the transaction was undone, its error
// replaces the job's own.
func (j *job) tell(failed error, undone bool) {
	if undone || j.err == nil {
		j.err = failed
	}
}

// name lists the charges and receipts that jobs will ask for.
func (s *Scope) name(batch []*job) {
	clear(s.Charges)
	s.Charges, s.Receipts = s.Charges[:0], s.Receipts[:0]
	for _, j := range batch {
		s.Charges = append(append(s.Charges, j.request.Charges...), j.block.Charges...)
		if id := j.request.ID; id != "" && !j.request.Fresh {
			p := &j.request.Charges[0].Pool
			s.Receipts = append(s.Receipts, ReceiptID{p.Upstream, p.Account, id})
		}
		for i := range j.tokens {
			s.nameToken(&j.tokens[i])
		}
		if j.token.ID != "" {
			s.nameToken(&j.token)
		}
	}
}

// nameToken lists the receipt of a token, and for a part that of the whole.
func (s *Scope) nameToken(t *quota.Token) {
	s.Receipts = append(s.Receipts, ReceiptID{t.Upstream, t.Account, t.ID})
	if part, ok := storekit.ReadPart(t.ID); ok {
		s.Receipts = append(s.Receipts, ReceiptID{t.Upstream, t.Account, part.Of})
	}
}

// enter puts a job into its queue. It reports whether the job leads: then it is not there.
func (s *Store) enter(j *job) (q *queue, leads bool, err error) {
	qs := &s.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.closed {
		return nil, false, ErrClosed
	}
	q = &qs.one
	apart := s.options.Deadline != 0
	if apart {
		if q = qs.open[j.key()]; q == nil {
			q = &queue{key: j.key()}
			qs.open[q.key] = q
		}
	}
	leads = !q.led && !apart
	switch {
	case leads:
		qs.leaders.Add(1)
	case !q.led:
		qs.leaders.Go(func() { s.lead(q) })
	}
	q.led = true
	if !leads {
		j.wake = make(chan struct{})
		q.waiting = append(q.waiting, j)
	}
	return q, leads, nil
}

// wait waits until a job leads its queue or is done, and returns how long it waited. It returns
// an error after [Options.Combine], or when the context ends. A job in a transaction waits for the
// transaction's end in any case, unless it runs apart.
func (s *Store) wait(ctx context.Context, q *queue, j *job) (waited time.Duration, err error) {
	clock := quota.SystemClock{}
	began := clock.Now()
	late := time.NewTimer(s.options.Combine)
	defer late.Stop()
	release := false
	select {
	case <-j.wake:
		return clock.Now().Sub(began), nil
	case <-late.C:
		if err = fmt.Errorf("it was busy for %s: this process is at it still", s.options.Combine.Round(time.Millisecond)); s.options.Deadline != 0 {
			err = fmt.Errorf("it did not answer in time, %s at most: %w", s.options.Combine.Round(time.Millisecond), context.DeadlineExceeded)
		}
	case <-ctx.Done():
		err, release = ctx.Err(), !storekit.RunsApart(ctx)
	}
	if s.queues.quit(q, j, release) {
		return 0, err
	}
	<-j.wake // it is in a transaction, or leads now
	return clock.Now().Sub(began), nil
}

// gather waits a moment for callers. The callers of the last transaction were answered at the
// same moment, and many ask again at once. Without this wait, the first of them would commit
// alone while the others wait, so every second commit would be for one caller. It ends when
// as many wait as shared the transaction before, when none came lately, or after a part of
// the time that a transaction takes. A caller that was alone before does not wait.
func (qs *queues) gather(q *queue) {
	qs.mu.Lock()
	last, came, most := q.last, len(q.waiting)+1, q.took/gathering
	qs.mu.Unlock()
	clock := quota.SystemClock{}
	for began, quiet := clock.Now(), 0; came < last && quiet < 3 && clock.Now().Sub(began) < most; quiet++ {
		runtime.Gosched()
		qs.mu.Lock()
		if now := len(q.waiting) + 1; now != came {
			came, quiet = now, 0
		}
		qs.mu.Unlock()
	}
}

// gathering is the part of a transaction's time for which the next one may wait for callers.
const gathering = 4

// take moves waiting jobs into a batch, until it is full.
func (qs *queues) take(q *queue, batch []*job) []*job {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	n := min(maxCombined-len(batch), len(q.waiting))
	batch = append(batch, q.waiting[:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// takeLoaded removes up to most jobs from a queue that need only the pages of a scope.
func (qs *queues) takeLoaded(q *queue, loaded *Scope, most int) (taken []*job) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(j *job) bool {
		if len(taken) == most || !loaded.covers(&j.request) {
			return false
		}
		taken = append(taken, j)
		return true
	})
	return taken
}

// quit removes a caller that no longer waits. If its transaction has begun, apart from it, it leaves
// its job there, and release says that nobody wants what is granted. Quit returns false if the caller
// must wait for its job: it is done, it leads, or it does not run apart.
func (qs *queues) quit(q *queue, j *job, release bool) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if i := slices.Index(q.waiting, j); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return true
	}
	apart := q != &qs.one
	j.left = release && apart
	return apart && !j.done
}

// ended wakes the callers whose jobs are done, except for the leader. A grant to a caller that has
// left, under an id that nobody else knows, is released in the next transaction.
func (qs *queues) ended(q *queue, leader *job, took time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	defer clear(q.work.batch)
	q.last, q.took = len(q.work.batch), q.took+(took-q.took)/8
	for _, j := range q.work.batch {
		if j == leader {
			continue
		}
		j.done = true
		close(j.wake)
		if t := j.verdict.Token(); j.left && j.err == nil && j.request.Fresh && t.ID != "" {
			q.waiting = append(q.waiting, &job{do: (*work).settle, token: t, wake: make(chan struct{})})
		}
	}
}

// goesOn reports whether a caller waits. If none does, the queue ends.
func (qs *queues) goesOn(q *queue) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(qs.open, q.key)
	}
	return len(q.waiting) > 0
}

// leave hands the lead to the first waiting job.
func (qs *queues) leave(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if len(q.waiting) == 0 {
		q.led = false
		qs.leaders.Done()
		return
	}
	next := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	close(next.wake)
}

// close fails the callers that wait, and waits for the transactions under way. Later callers get
// [ErrClosed].
func (qs *queues) close() {
	qs.mu.Lock()
	qs.closed = true
	fail := func(q *queue) {
		for _, j := range q.waiting {
			j.done, j.err = true, ErrClosed
			close(j.wake)
		}
		q.waiting = nil
	}
	fail(&qs.one)
	for _, q := range qs.open {
		fail(q)
	}
	qs.mu.Unlock()
	qs.leaders.Wait()
}
