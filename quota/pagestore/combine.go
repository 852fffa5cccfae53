package pagestore

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// queue holds callers while a transaction is under way. One caller leads. It runs a
// transaction for itself and for the callers that wait at that moment. Then it hands the
// lead to the first caller that came later.
type queue struct {
	mu      sync.Mutex
	led     bool
	closed  bool
	waiting []*job
	last    int           // callers of the transaction before
	took    time.Duration // by transactions, on average
}

// combine runs a job in a transaction, together with waiting jobs.
func (s *Store) combine(ctx context.Context, j *job) error {
	waited, err := s.queue.enter(ctx, j, s.options.Combine)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("write to %s: %w", s.options.Name, err)
	case err != nil:
		return err
	case j.done:
		return j.err
	}
	defer s.queue.leave()
	s.queue.gather()
	began := quota.SystemClock{}.Now()
	tx, err := s.backend.Begin(ctx, waited)
	if err != nil {
		return err
	}
	batch := append([]*job{j}, s.queue.take(maxCombined-1)...)
	defer func() { s.queue.ran(len(batch), quota.SystemClock{}.Now().Sub(began)) }()
	defer func() { // also after a panic, so that no caller waits for ever
		for _, k := range batch[1:] {
			k.done = true
			close(k.wake)
		}
	}()
	s.work.batch = batch
	s.work.transact(ctx, tx, nil)
	return j.err
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

// enter waits until the job leads or is done, and returns how long it waited. It returns
// an error after most, or when the context ends. A job in a transaction waits for the
// transaction's end in any case.
func (q *queue) enter(ctx context.Context, j *job, most time.Duration) (waited time.Duration, err error) {
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return 0, ErrClosed
	case !q.led:
		q.led = true
		q.mu.Unlock()
		return 0, nil
	}
	j.wake = make(chan struct{})
	q.waiting = append(q.waiting, j)
	q.mu.Unlock()
	clock := quota.SystemClock{}
	began := clock.Now()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-j.wake:
		return clock.Now().Sub(began), nil
	case <-late.C:
		err = fmt.Errorf("it was busy for %s: this process is at it still", most.Round(time.Millisecond))
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	at := slices.Index(q.waiting, j)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	q.mu.Unlock()
	if at >= 0 {
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
func (q *queue) gather() {
	q.mu.Lock()
	last, came, most := q.last, len(q.waiting)+1, q.took/gathering
	q.mu.Unlock()
	clock := quota.SystemClock{}
	for began, quiet := clock.Now(), 0; came < last && quiet < 3 && clock.Now().Sub(began) < most; quiet++ {
		runtime.Gosched()
		q.mu.Lock()
		if now := len(q.waiting) + 1; now != came {
			came, quiet = now, 0
		}
		q.mu.Unlock()
	}
}

// gathering is the part of a transaction's time for which the next one may wait for callers.
const gathering = 4

// ran notes how many callers shared a transaction, and how long it took.
func (q *queue) ran(callers int, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last, q.took = callers, q.took+(took-q.took)/8
}

// take removes up to n waiting jobs from the queue, but none behind Close.
func (q *queue) take(n int) []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.waiting))
	if last := slices.IndexFunc(q.waiting, func(j *job) bool { return j.do == nil }); last >= 0 {
		n = min(n, last)
	}
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return taken
}

// leave hands the lead to the first waiting job.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.led = false
		return
	}
	next := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	close(next.wake)
}

// close waits for the callers that came before. Later callers get [ErrClosed].
func (q *queue) close() {
	var last job
	_, err := q.enter(context.Background(), &last, math.MaxInt64)
	if err != nil {
		return // closed before
	}
	q.mu.Lock()
	q.closed = true
	waiting := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for _, j := range waiting {
		j.done, j.err = true, ErrClosed
		close(j.wake)
	}
}
