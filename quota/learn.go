package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
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

// learner is what a ledger knows of one of them.
type learner struct {
	pool Pool
	turn chan struct{} // one change of the note at a time

	// Who has the turn may use these.
	state   pace.State
	version int64
	read    time.Time // when the note was read or written last, by the ledger's clock; zero: never
	unsure  *unsure   // a write without an answer; else nil

	mu     sync.Mutex
	bounds pace.Bounds
	ahead  time.Duration       // the store's clock minus the ledger's
	open   bool                // a call was refused, and none has passed since
	most   int                 // of sent, before old ones are forgotten
	sent   map[string]sentCall // calls of this process that have no answer yet, by their ids
	told   []told              // that the note does not have
	timer  *time.Timer         // writes them
}

// unsure is a write of which is not known whether it has reached the note.
type unsure struct {
	text string
	told int            // how many answers it had
	sent window.Instant // the call that it let through, which then was not sent; or 0
}

// sentCall is a call that was sent.
type sentCall struct {
	at    window.Instant
	units int64
	tells bool  // see Call.TellsAnswer
	nonce Nonce // of its receipt
}

// told is what became of a call.
type told struct {
	sentCall
	by    time.Time // when it was told, by the ledger's clock
	as    answer
	named time.Duration // the wait that a refusal has named
	owner bool          // the call is known; else somebody has only said that there was a refusal
}

type answer int

const (
	wasAccepted answer = iota
	wasRefused
	wasNotSent
)

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

// boundsOf returns the bounds of the pools of a price book whose limits are learned.
func boundsOf(b *book.Book) map[[2]string]pace.Bounds {
	all := make(map[[2]string]pace.Bounds)
	for _, u := range b.Upstreams {
		for _, p := range u.Pools {
			if p.Learned != nil {
				all[[2]string{u.Name, p.Name}] = pace.Bounds{From: float64(p.Learned.From), To: float64(p.Learned.To), Obey: p.Learned.Obey}
			}
		}
	}
	return all
}

// learner returns what is known of a pool; nil if its limit is not learned.
func (l *Ledger) learner(pool Pool) *learner {
	bounds, learns := l.prices.Load().learned[[2]string{pool.Upstream, pool.Name}]
	if !learns {
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
	lr.bounds = bounds // of the current price book
	return lr
}

// learners returns the pools of an account whose limits are learned, and of which something is known.
func (l *Ledger) learners(upstream, account string) []*learner {
	learned := l.prices.Load().learned
	if len(learned) == 0 {
		return nil
	}
	l.learning.mu.Lock()
	defer l.learning.mu.Unlock()
	of := l.learning.of[accountKey{upstream: upstream, account: account}]
	if !slices.ContainsFunc(of, func(lr *learner) bool { _, learns := learned[[2]string{upstream, lr.pool.Name}]; return !learns }) {
		return of
	}
	return slices.DeleteFunc(slices.Clone(of), func(lr *learner) bool { _, learns := learned[[2]string{upstream, lr.pool.Name}]; return !learns })
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
	ask := func(reads bool) error {
		var sent window.Instant
		err := lr.change(ctx, l, reads, func(s *pace.State, b pace.Bounds, now window.Instant) bool {
			sent, wait = s.Send(b, now, float64(max(units, 1)))
			episode = s.Open != 0
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
	if v.Reason = "calls are sent at the rate that was learned"; episode {
		v.Reason = "the upstream has refused a call, and one goes first"
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

// has reports whether a call was sent and has no answer yet.
func (lr *learner) has(id string) bool {
	lr.mu.Lock()
	defer lr.mu.Unlock()
	_, sent := lr.sent[id]
	return sent
}

// change changes the note. What was told is written along. Do says whether it has changed the state;
// it may be called several times. With reads, what is known must be fresh.
func (lr *learner) change(ctx context.Context, l *Ledger, reads bool, do func(*pace.State, pace.Bounds, window.Instant) bool) error {
	keeper, can := l.store.(NoteKeeper)
	if !can {
		return ErrNoNotes
	}
	select {
	case lr.turn <- struct{}{}:
		defer func() { <-lr.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout) // so that nobody keeps the turn for ever
	defer cancel()
	for range mostSwaps {
		if now := l.clock.Now(); lr.read.IsZero() || reads && now.Sub(lr.read).Abs() > learnedFresh {
			n, _, err := keeper.SwapNote(ctx, lr.name(), -1, "")
			if err != nil {
				return err
			}
			lr.state = readLearned(n.Text)
			lr.saw(n, now)
		}
		lr.mu.Lock()
		all, b, ahead := slices.Clone(lr.told), lr.bounds, lr.ahead
		lr.mu.Unlock()
		s := lr.state.Clone()
		for i := range all {
			all[i].tell(&s, b, ahead)
		}
		if !do(&s, b, window.At(l.clock.Now().Add(ahead))) && len(all) == 0 {
			return nil
		}
		text, err := json.Marshal(&s)
		if err != nil {
			return err
		}
		n, swapped, err := keeper.SwapNote(ctx, lr.name(), lr.version, string(text))
		if err != nil {
			lr.read, lr.unsure = time.Time{}, &unsure{text: string(text), told: len(all)}
			if sent := latest(&s); sent > latest(&lr.state) {
				lr.unsure.sent = sent
			}
			return err
		}
		if !swapped {
			lr.state = readLearned(n.Text)
			lr.saw(n, l.clock.Now())
			continue
		}
		lr.state = s
		lr.saw(n, l.clock.Now())
		lr.mu.Lock()
		defer lr.mu.Unlock()
		lr.told = slices.Delete(lr.told, 0, len(all))
		return nil
	}
	return fmt.Errorf("others have changed what is known of %s %d times meanwhile", lr.pool, mostSwaps)
}

// latest returns when the last call in flight was sent, or 0.
func latest(s *pace.State) window.Instant {
	if n := len(s.Flight); n > 0 {
		return s.Flight[n-1].At
	}
	return 0
}

// name is that of the note.
func (lr *learner) name() string { return "learned " + lr.pool.String() }

// saw takes the version and the time of a note.
func (lr *learner) saw(n Note, now time.Time) {
	lr.version, lr.read = n.Version, now
	lr.mu.Lock()
	defer lr.mu.Unlock()
	lr.ahead, lr.open = n.Now.Sub(now), lr.state.Open != 0
	if u := lr.unsure; u != nil {
		if lr.unsure = nil; n.Text == u.text { // it was written
			lr.told = slices.Delete(lr.told, 0, min(u.told, len(lr.told)))
			if u.sent != 0 {
				lr.told = append(lr.told, told{sentCall: sentCall{at: u.sent}, by: now, as: wasNotSent, owner: true})
			}
		}
	}
}

// readLearned reads a note. One that cannot be read was written by hand, or by a version to come: what
// it says is learned anew.
func readLearned(text string) (s pace.State) {
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return pace.State{}
	}
	return s
}

// tell tells a state what became of a call.
func (t *told) tell(s *pace.State, b pace.Bounds, ahead time.Duration) {
	sent, by := t.at, window.At(t.by.Add(ahead))
	if !t.owner {
		if sent = by; s.Open != 0 && s.Probe != 0 { // only the probe is under way
			sent = s.Probe
		}
	}
	switch t.as {
	case wasAccepted:
		s.Accepted(b, sent, by, float64(t.units))
	case wasRefused:
		s.Refused(b, sent, by, t.named)
	case wasNotSent:
		s.Unsent(b, sent, by)
	}
}

// learned notes what became of a call in the pools whose limits are learned. Settled is that the call
// was settled, which says nothing of one whose caller tells the answer itself.
func (l *Ledger) learned(upstream, account, id string, as answer, settled bool) {
	for _, lr := range l.learners(upstream, account) {
		lr.hear(l, id, as, settled)
	}
}

// hear notes what became of a call.
func (lr *learner) hear(l *Ledger, id string, as answer, settled bool) {
	lr.mu.Lock()
	defer lr.mu.Unlock()
	c, sent := lr.sent[id]
	if !sent || settled && c.tells {
		return
	}
	delete(lr.sent, id)
	lr.note(l, told{sentCall: c, as: as, owner: true})
}

// note notes what became of a call, to be written a moment later. The caller holds the lock.
func (lr *learner) note(l *Ledger, t told) {
	t.by = l.clock.Now()
	if lr.told = append(lr.told, t); len(lr.told) > mostSent { // the ledger has been down for long
		lr.told = slices.Delete(lr.told, 0, len(lr.told)-mostSent)
	}
	delay := learnedDelay
	if lr.open {
		delay = 0 // others wait for it
	}
	if lr.timer == nil {
		lr.timer = time.AfterFunc(delay, func() { lr.write(l) })
	} else if delay == 0 {
		lr.timer.Reset(0)
	}
}

// write writes what was told. If it fails, it goes along with the next call.
func (lr *learner) write(l *Ledger) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	if err := lr.change(ctx, l, false, nothing); err != nil {
		return l.storeError(ctx, "note a refusal of "+lr.pool.String(), err)
	}
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
	bounds, learns := p.learned[[2]string{pool.Upstream, pool.Name}]
	if !learns {
		return nil, nil
	}
	keeper, can := l.store.(NoteKeeper)
	if !can {
		return nil, nil
	}
	lr := &learner{pool: pool, bounds: bounds}
	n, _, err := keeper.SwapNote(ctx, lr.name(), -1, "")
	if err != nil {
		return nil, err
	}
	return lr.found(n), nil
}

func (lr *learner) found(n Note) *Learned {
	s := readLearned(n.Text)
	k := &Learned{Rate: s.RateNow(lr.bounds), Measured: s.Rate, Refusals: s.Said, Refused: s.Open != 0}
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
