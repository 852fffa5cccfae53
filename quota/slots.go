package quota

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// Slots are the places of calls in flight. A reservation that has some keeps them until
// Done. One heartbeat of the ledger renews them all, and the receipts of calls that are
// settled when they have ended. It runs while there are any, by the machine's clock, because
// a simulated one does not pass by itself.

// slots are those of a ledger's reservations.
type slots struct {
	mu    sync.Mutex
	open  map[Token]*slot
	beat  *time.Timer            // runs the heartbeat; nil: there are none
	next  time.Time              // when it does
	usual map[Pool]time.Duration // how long recent calls had their slots, by pool without account and key
}

// slot is the state of one reservation's slots, or of its receipt alone.
type slot struct {
	pools []Pool        // none: it has no slots
	taken time.Time     // by the ledger's clock
	every time.Duration // it is renewed as often
	due   time.Time     // when it is to be renewed
	held  int           // reservations that have it: an id may be reserved again
	ended time.Time     // when its call ended, but the store could not be told; else zero

	estimates []Pool // without keys, of which its call may give back units
}

// flight is shared by the copies of a reservation that is renewed. The heartbeat does not
// know it, so it is collected with the last copy.
type flight struct {
	ledger *Ledger
	done   atomic.Bool // the slots were given back
}

// beatsPerTTL is how often a slot is renewed in its ttl, so that a lost heartbeat can be
// repeated in time.
const beatsPerTTL = 3

// renewal is how often the receipt of a call without slots is renewed.
const renewal = ReceiptLife / beatsPerTTL

// slotOf returns the slots among charges; nil if there are none.
func slotOf(charges []Charge) *slot {
	var s *slot
	for i := range charges {
		spec := &charges[i].Windows[0].Spec
		if !spec.InFlight() {
			continue
		}
		if s == nil {
			s = &slot{every: spec.Per / beatsPerTTL}
		}
		s.pools = append(s.pools, charges[i].Pool)
		s.every = min(s.every, spec.Per/beatsPerTTL)
	}
	return s
}

// withoutSlots returns the charges that are units.
func withoutSlots(charges []Charge) []Charge {
	for i := range charges {
		if charges[i].Windows[0].Spec.InFlight() {
			return slices.DeleteFunc(slices.Clone(charges), func(c Charge) bool { return c.Windows[0].Spec.InFlight() })
		}
	}
	return charges // nearly always
}

// Done gives the slots of a call that has ended back: those of its pools with in_flight.
// Call it when the answer's body was read or closed. It takes effect once, also after
// Settle, which leaves the slots. For a call without slots that has an estimated price, it
// says that the estimate stands, so that no other call waits for its units.
//
// Until Done, the ledger renews the slots for as long as the process lives and has the
// reservation. After that, they count for the pool's ttl. If Done returns an error, the
// ledger tries again by itself.
func (r *Reservation) Done(ctx context.Context) error {
	if !r.made() {
		return BadInput("done: this reservation was not made by a ledger: see Ledger.Reserve")
	}
	if r.price.learns {
		r.ledger.learned(r.Pool.Upstream, r.Pool.Account, r.ID, wasAccepted, true)
	}
	if r.bill != nil {
		r.ledger.slots.stands(r.bill.token)
	}
	if r.flight == nil {
		return nil
	}
	r.ledger.slots.stands(r.Verdict.Token())
	if !r.price.slots || r.flight.done.Load() {
		return nil
	}
	err := r.flight.ledger.Done(ctx, r.Verdict.Token())
	if err == nil {
		r.flight.done.Store(true)
	}
	return err
}

// Done is [Reservation.Done] by the reservation's token, so another process can call it.
// A token without slots, or one whose slots were given back, is no error.
func (l *Ledger) Done(ctx context.Context, t Token) error {
	switch {
	case l.current() == nil:
		return errNotMade
	case t.ID == "":
		return BadInput("done: this reservation has no receipt")
	}
	t = t.plain()
	l.learned(t.Upstream, t.Account, t.ID, wasAccepted, true)
	l.probed(t.Upstream, t.Account, t.ID, true, true)
	s := l.slots.remove(t)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if _, err := l.store.Slots(within, []Token{t}, true); err != nil {
		if s != nil {
			s.ended, s.due = SystemClock{}.Now(), SystemClock{}.Now().Add(s.retry())
			l.keep(t, s)
		}
		return l.storeError(context.WithoutCancel(ctx), "give back a slot of "+t.Upstream, err)
	}
	if s != nil {
		l.slots.took(s.pools, l.clock.Now().Sub(s.taken))
	}
	l.freed(s)
	return nil
}

// took notes how long a call had its slots.
func (s *slots) took(pools []Pool, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usual == nil {
		s.usual = make(map[Pool]time.Duration)
	}
	for _, p := range pools {
		p.Account, p.Key = "", "" // so there are no more than in the price book
		usual, known := s.usual[p]
		if !known {
			usual = d
		}
		s.usual[p] = usual + (d-usual)/8
	}
}

// freed tells waiting calls that slots came back.
func (l *Ledger) freed(s *slot) {
	if s != nil {
		now := l.clock.Now()
		l.line.freed(s.pools, now.Sub(s.taken), now)
	}
}

// keepReceipt renews the slots and the receipt of a granted reservation from now on, until
// nobody has the reservation any more. So its receipt lives as long as its call. Slots that
// were given back are renewed no longer.
func (l *Ledger) keepReceipt(r *Reservation) {
	s := slotOf(r.price.charges)
	if s == nil {
		s = &slot{every: renewal}
	}
	for i := range r.price.charges {
		if pool := r.price.charges[i].Pool; r.price.depends[pool.Name] != nil {
			pool.Key = ""
			s.estimates = append(s.estimates, pool)
		}
	}
	s.taken, s.due, s.held = l.clock.Now(), SystemClock{}.Now().Add(s.every), 1
	l.keep(r.Verdict.Token(), s)
	r.flight = &flight{ledger: l}
	runtime.AddCleanup(r.flight, l.slots.abandon, r.Verdict.Token())
}

func (l *Ledger) keep(t Token, s *slot) {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	if l.slots.open == nil {
		l.slots.open = make(map[Token]*slot)
	}
	if was := l.slots.open[t]; was != nil {
		s.held += was.held
	}
	l.slots.open[t] = s
	if l.slots.beat == nil || s.due.Before(l.slots.next) {
		l.beatAt(s.due)
	}
}

// beatAt runs the heartbeat at an instant. The caller holds the lock.
func (l *Ledger) beatAt(at time.Time) {
	l.slots.next = at
	if l.slots.beat == nil {
		l.slots.beat = SystemClock{}.timer(at, l.renew)
	} else {
		l.slots.beat.Reset(at.Sub(SystemClock{}.Now()))
	}
}

// remove returns what it removes, or nil.
func (s *slots) remove(t Token) *slot { return s.removeIf(t, true) }

// removeIf is remove for a reservation with slots only if slots is set, and else for any
// without them. Its estimates stand.
func (s *slots) removeIf(t Token, slots bool) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.open[t]
	if was == nil {
		return nil
	}
	if was.estimates = nil; !slots && len(was.pools) > 0 {
		return nil
	}
	s.delete(t)
	return was
}

// stands notes that a call gives back no more units.
func (s *slots) stands(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.open[t]; one != nil {
		one.estimates = nil
	}
}

// unsettledFor is longer than nearly all calls take. If a call takes longer, callers that need its
// units are refused at once and do not wait.
const unsettledFor = 10 * time.Minute

// unsettled reports whether a call may still give back units of a pool that it has estimated.
func (s *slots) unsettled(pool Pool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool.Key = ""
	for _, one := range s.open {
		if now.Sub(one.taken) < unsettledFor && slices.Contains(one.estimates, pool) {
			return true
		}
	}
	return false
}

// delete also ends the heartbeat after the last. The caller holds the lock.
func (s *slots) delete(t Token) {
	delete(s.open, t)
	if len(s.open) == 0 && s.beat != nil {
		s.beat.Stop()
		s.beat = nil
	}
}

// abandon stops renewing slots whose reservation nobody has any more. The heartbeat finds
// that out when it is due.
func (s *slots) abandon(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[t]
	if one == nil {
		return
	}
	if one.held--; one.held == 0 && one.ended.IsZero() {
		delete(s.open, t)
	}
}

// retry is the pause after a heartbeat that failed: several fit into the rest of a ttl.
func (s *slot) retry() time.Duration { return s.every / 4 }

// renew is the heartbeat: it renews the slots that are due, and with them those that soon
// will be. It gives back those of ended calls.
func (l *Ledger) renew() {
	defer func() {
		l.slots.mu.Lock()
		defer l.slots.mu.Unlock()
		if len(l.slots.open) == 0 {
			l.slots.beat = nil
		} else {
			l.beatAt(slices.MinFunc(slices.Collect(maps.Values(l.slots.open)), func(a, b *slot) int { return a.due.Compare(b.due) }).due)
		}
	}()
	var keep, ended []Token
	most := settleTimeout
	l.slots.mu.Lock()
	now := SystemClock{}.Now()
	for t, s := range l.slots.open {
		switch {
		case s.due.Sub(now) > s.every/2:
			continue
		case s.ended.IsZero():
			keep = append(keep, t)
		case now.Sub(s.ended) > beatsPerTTL*s.every: // its ttl has given it back
			l.slots.delete(t)
			continue
		default:
			ended = append(ended, t)
		}
		most = min(most, s.every)
		s.due = now.Add(s.retry())
	}
	l.slots.mu.Unlock()
	places := l.prices.Load().places
	for _, t := range keep {
		places.stay(t.Upstream, t.Account)
	}
	for few := range slices.Chunk(keep, slotsAtOnce) {
		l.renewed(few, false, most)
	}
	for few := range slices.Chunk(ended, slotsAtOnce) {
		l.renewed(few, true, most)
	}
}

// slotsAtOnce bounds the slots that a store is asked for at once, and so how long its other callers
// wait for the answer: a store renews them in one transaction.
const slotsAtOnce = 256

// renewed asks the store for slots, and notes what became of them.
func (l *Ledger) renewed(tokens []Token, done bool, most time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	began := SystemClock{}.Now()
	held, err := l.store.Slots(ctx, tokens, done)
	if err != nil {
		return // they are due again soon, and the others do not wait for that
	}
	for i, t := range tokens {
		l.slots.mu.Lock()
		s := l.slots.open[t]
		gone := done || !held[i] && s != nil && len(s.pools) > 0 // given back, here or by another process
		if s != nil && s.ended.IsZero() {
			s.due = began.Add(s.every)
		}
		l.slots.mu.Unlock()
		if gone {
			l.freed(l.slots.remove(t))
		}
	}
}

// slotsTaken says why a call was refused that lacks a slot, and makes it come again when one is likely to be free: after
// what recent calls took. The store knows only when the first slot expires if its process has crashed.
func (s *slots) slotsTaken(v *Verdict, charges []Charge) {
	if !lacksSlot(v, charges) {
		return
	}
	v.Reason = fmt.Sprintf("%d of %d slots are taken", v.Used, v.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if usual, known := s.usual[Pool{Upstream: v.Pool.Upstream, Name: v.Pool.Name}]; known {
		v.RetryAfter = min(v.RetryAfter, max(usual, firstPause))
		v.RetryAt = v.At.Add(v.RetryAfter)
	}
}

// lacksSlot reports whether a call was refused because too many are in flight. It may have
// a slot long before the first one expires.
func lacksSlot(v *Verdict, charges []Charge) bool {
	if v.Allowed || v.Blocked || v.Impossible {
		return false
	}
	for i := range charges {
		if charges[i].Pool == v.Pool {
			return charges[i].Windows[0].Spec.InFlight()
		}
	}
	return false
}

// maySettle reports whether what a call was refused for may come back before the time that
// the refusal names: a slot when a call ends, units when an estimate is settled or another process gives back
// what is left of its units in a lease, or the pool when the first call after a block is answered. If that time is
// too late for the caller, only calls of this ledger are known to be unsettled.
func (l *Ledger) maySettle(p *price, v *Verdict, left time.Duration) bool {
	switch {
	case v.Probing, lacksSlot(v, p.charges):
		return true
	case v.Allowed, v.Blocked, v.Impossible, p.depends[v.Pool.Name] == nil && v.Pool.Upstream != book.Budgets && !p.leased(v.Pool):
		return false
	}
	return v.RetryAfter <= left || l.slots.unsettled(v.Pool, l.clock.Now())
}

// leased reports whether processes take the units of a pool in blocks, and take turns for it.
func (p *price) leased(pool Pool) bool {
	return slices.ContainsFunc(p.charges, func(c Charge) bool { return c.Pool == pool && c.Lease.Life > 0 && pool.Name != "" })
}
