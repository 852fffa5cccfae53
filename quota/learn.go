package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/pace"
	"github.com/headroom-quota/headroom/quota/window"
)

// The limit of a pool with quota: {learn: ...} is learned by package pace. What was learned is a note of
// the store, so all processes share it. A call that is to be sent changes the note before the store is
// asked for its units, and its answer changes it again. Answers that were accepted go along with
// the next call, or a moment later. A refusal, and the answer to a probe, are written at once.

// Learned is what was learned of the limit of a pool.
type Learned struct {
	Rate     float64   // units a second that are sent now
	Measured float64   // units a second that passed; 0: no call was refused yet
	Places   int       // calls in flight that are let through, in place of a rate; 0: the rate holds
	Refusals int64     // that it was learned from
	Since    time.Time // when the first call was sent; zero: never
	At       time.Time // when the rate was measured last; zero: never
	Refused  bool      // a call was refused, and none has passed since
	// Course has what passed in a second, from one refusal to the next, for the last ones.
	Course []LearnedRate
}

// LearnedRate is what passed in a second until an instant.
type LearnedRate struct {
	At   time.Time
	Rate float64
}

// learning is what a ledger knows of limits that are learned.
type learning struct {
	mu sync.Mutex
	of map[accountKey][]*learner // by upstream and account
}

const (
	// learnedFresh is how old what is known of a note may be if a call is refused by it.
	learnedFresh = 100 * time.Millisecond
	// learnedDelay is how long answers wait at most before they are written.
	learnedDelay = 250 * time.Millisecond
	// mostSent is how many calls without an answer are remembered before old ones are forgotten.
	mostSent = 4096
	// sentLife is how long they are remembered then.
	sentLife = 10 * time.Minute
	// mostSwaps is how often a note is written again that others have written meanwhile.
	mostSwaps = 1000
)

// learner returns what is known of a pool; nil if its limit is not learned.
func (l *Ledger) learner(pool Pool) *learner {
	bounds := l.prices.Load().of(pool.Upstream, pool.Name).learned
	if bounds == nil {
		return nil
	}
	l.learning.mu.Lock()
	defer l.learning.mu.Unlock()
	of := accountKey{upstream: pool.Upstream, account: pool.Account}
	i := slices.IndexFunc(l.learning.of[of], func(lr *learner) bool { return lr.pool == pool })
	if i < 0 {
		if l.learning.of == nil {
			l.learning.of = make(map[accountKey][]*learner)
		}
		i = len(l.learning.of[of])
		l.learning.of[of] = append(l.learning.of[of], &learner{pool: pool, turn: make(chan struct{}, 1), sent: make(map[string]sentCall)})
	}
	lr := l.learning.of[of][i]
	lr.mu.Lock()
	defer lr.mu.Unlock()
	lr.bounds = *bounds // of the current price book
	return lr
}

// learners returns the pools of an account whose limits are learned, and of which something is known.
func (l *Ledger) learners(upstream, account string) []*learner {
	p := l.prices.Load()
	if !p.learns {
		return nil
	}
	l.learning.mu.Lock()
	defer l.learning.mu.Unlock()
	all := slices.Clone(l.learning.of[accountKey{upstream: upstream, account: account}])
	return slices.DeleteFunc(all, func(lr *learner) bool { return p.of(upstream, lr.pool.Name).learned == nil })
}

// pace lets a call pass those of its pools whose limits are learned. It returns the verdict of the first one
// that does not let it pass, and whether the call was let through anew.
func (l *Ledger) pace(ctx context.Context, c *Call, id string, charges []Charge) (before *Verdict, anew bool, err error) {
	for i := range charges {
		lr := l.learner(charges[i].Pool)
		if lr == nil {
			continue
		}
		v, fresh, err := lr.send(ctx, l, c, id, charges[i].Units)
		if err != nil || v != nil {
			if anew {
				l.learned(charges[i].Pool.Upstream, charges[i].Pool.Account, id, wasNotSent, false)
			}
			return v, false, err
		}
		anew = anew || fresh
	}
	return nil, anew, nil
}

// send asks whether a call may be sent now.
func (lr *learner) send(ctx context.Context, l *Ledger, c *Call, id string, units int64) (before *Verdict, fresh bool, err error) {
	if lr.has(id) {
		return nil, false, nil // it is asked for again
	}
	var wait time.Duration
	var episode bool
	var places int
	ask := func(reads bool) error {
		var sent window.Instant
		err := lr.change(ctx, l, reads, func(s *pace.State, b pace.Bounds, now window.Instant) bool {
			sent, wait = s.Send(b, now, float64(max(units, 1)))
			episode, places = s.Open != 0, s.Places
			return wait == 0
		})
		if err == nil && wait == 0 {
			lr.mu.Lock()
			defer lr.mu.Unlock()
			if len(lr.sent) >= lr.most { // callers that never say how their calls ended
				maps.DeleteFunc(lr.sent, func(_ string, c sentCall) bool { return sent.Sub(c.at).Abs() > sentLife })
				lr.most = max(2*len(lr.sent), mostSent)
			}
			lr.sent[id] = sentCall{at: sent, units: max(units, 1), tells: c.TellsAnswer}
		}
		return err
	}
	if err = ask(false); err == nil && wait > 0 { // others may know better
		err = ask(true)
	}
	if err != nil {
		return nil, false, l.storeError(ctx, "reserve "+lr.pool.String(), err)
	}
	if wait == 0 {
		return nil, true, nil
	}
	now := l.now()
	v := &Verdict{ID: id, Pool: lr.pool, Window: "the learned rate", Units: units, At: now, RetryAfter: wait, RetryAt: now.Add(wait), ResetAt: now.Add(wait)}
	switch v.Reason = "calls are sent at the rate that was learned"; {
	case episode:
		v.Reason = "the upstream has refused a call, and one goes first"
	case places > 0:
		v.Reason = fmt.Sprintf("the upstream was seen to take %d calls in flight at once", places)
	}
	return v, false, nil
}

// letThroughAs notes the receipt of a call that was let through.
func (l *Ledger) letThroughAs(v *Verdict) {
	for _, lr := range l.learners(v.Pool.Upstream, v.Pool.Account) {
		lr.mu.Lock()
		if c, sent := lr.sent[v.ID]; sent {
			c.nonce = v.Nonce
			lr.sent[v.ID] = c
		}
		lr.mu.Unlock()
	}
}

// learned notes what became of a call in the pools whose limits are learned. Settled is that the call
// was settled, which says nothing of one whose caller tells the answer itself.
func (l *Ledger) learned(upstream, account, id string, as answer, settled bool) {
	for _, lr := range l.learners(upstream, account) {
		lr.hear(l, id, as, settled)
	}
}

// write writes what was told. If it fails, it goes along with the next call.
func (lr *learner) write(l *Ledger) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	lr.mu.Lock()
	lr.timer = nil
	lr.mu.Unlock()
	_ = lr.change(ctx, l, false, nothing) // the next call meets the same fault
}

// writeLearned writes all that was told.
func (l *Ledger) writeLearned(ctx context.Context) error {
	l.learning.mu.Lock()
	all := slices.Concat(slices.Collect(maps.Values(l.learning.of))...)
	l.learning.mu.Unlock()
	for _, lr := range all {
		lr.mu.Lock()
		told := len(lr.told)
		lr.mu.Unlock()
		if told == 0 {
			continue
		}
		if err := lr.change(ctx, l, false, nothing); err != nil {
			return l.storeError(ctx, "write what was learned of "+lr.pool.String(), err)
		}
	}
	return nil
}

// nothing changes nothing but what was told.
func nothing(*pace.State, pace.Bounds, window.Instant) bool { return false }

// refused notes that the upstream has refused a call, and writes it at once.
func (lr *learner) refused(ctx context.Context, l *Ledger, id string, named time.Duration) error {
	lr.mu.Lock()
	c, sent := lr.sent[id]
	delete(lr.sent, id)
	lr.note(l, told{sentCall: c, as: wasRefused, named: named, owner: sent})
	lr.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := lr.change(ctx, l, false, nothing); err != nil {
		return l.storeError(ctx, "note a refusal of "+lr.pool.String(), err)
	}
	lr.wake(l)
	return nil
}

// Refused is [Reservation.Refused] by the reservation's token, for all its pools whose limits are learned.
// The process that has reserved the call must be told, before it is settled. It reports whether there
// was such a pool.
func (l *Ledger) Refused(ctx context.Context, t Token, named time.Duration) (learns bool, err error) {
	if l.current() == nil {
		return false, errNotMade
	}
	for _, lr := range l.learners(t.Upstream, t.Account) {
		lr.mu.Lock()
		c, sent := lr.sent[t.ID]
		lr.mu.Unlock()
		if sent && c.nonce == t.Nonce && t.Nonce != (Nonce{}) {
			learns, err = true, errors.Join(err, lr.refused(ctx, l, t.ID, named))
		}
	}
	return learns, err
}

// Refused tells the ledger that the upstream has refused the call for want of a pool's units. Named is how
// long to wait by its answer, or 0. It returns false for a pool whose limit is not learned: block that
// one instead.
func (r *Reservation) Refused(ctx context.Context, pool Pool, named time.Duration) (learns bool, err error) {
	if !r.made() {
		return false, BadInput("refused: this reservation was not made by a ledger: see Ledger.Reserve")
	}
	c, err := r.ledger.current().pool(pool)
	if err != nil {
		return false, err
	}
	lr := r.ledger.learner(c.Pool)
	if lr == nil {
		return false, nil
	}
	if !lr.has(r.ID) { // it was let through in an outage or in mode observe, or told before
		return true, nil
	}
	return true, lr.refused(ctx, r.ledger, r.ID, named)
}

// Unanswered tells the ledger that no answer of the upstream came. Calls that settle need not say it.
func (r *Reservation) Unanswered() {
	if r.made() && r.price.learns {
		r.ledger.learned(r.Pool.Upstream, r.Pool.Account, r.ID, wasNotSent, false)
	}
}

// lookLearned returns what was learned of the limit of a pool; nil if its limit is not learned.
func (l *Ledger) lookLearned(ctx context.Context, p *prices, pool Pool) (*Learned, error) {
	bounds := p.of(pool.Upstream, pool.Name).learned
	keeper, can := l.store.(NoteKeeper)
	if bounds == nil || !can {
		return nil, nil
	}
	lr := &learner{pool: pool, bounds: *bounds}
	n, _, err := keeper.SwapNote(ctx, lr.name(), -1, "")
	if err != nil {
		return nil, err
	}
	return lr.found(n), nil
}

func (lr *learner) found(n Note) *Learned {
	s := readNote[pace.State](n)
	k := &Learned{Rate: s.RateNow(lr.bounds), Measured: s.Rate, Places: s.Places, Refusals: s.Said, Refused: s.Open != 0}
	if s.Began != 0 {
		k.Since = s.Began.Time()
	}
	for i, end := range s.Ends {
		if k.At = end.At.Time(); i > 0 {
			if busy := end.At.Sub(s.Ends[i-1].At).Seconds() - (end.Idle - s.Ends[i-1].Idle); busy > 0 {
				k.Course = append(k.Course, LearnedRate{k.At, (end.Total - s.Ends[i-1].Total) / busy})
			}
		}
	}
	return k
}

// Forget forgets what was learned of the limit of a pool, for all processes.
func (a Admin) Forget(ctx context.Context, pool Pool) error {
	l := a.ledger
	c, err := l.current().pool(pool)
	if err != nil {
		return err
	}
	lr := l.learner(c.Pool)
	if lr == nil {
		return BadInput("forget %s: its limit is that of the price book, and is not learned", c.Pool)
	}
	err = lr.change(ctx, l, false, func(s *pace.State, _ pace.Bounds, _ window.Instant) bool {
		*s = pace.State{}
		return true
	})
	if err != nil {
		return l.storeError(ctx, "forget what was learned of "+c.Pool.String(), err)
	}
	return nil
}
