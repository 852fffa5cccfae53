package quota

import (
	"maps"
	"slices"
	"time"
)

// After a block one call goes first, the probe. The others of this process are refused until the
// upstream has answered it, and has not refused it again. So a thousand calls that wait for the
// same instant do not all meet the next refusal. A probe holds the others for as long as the
// block was, but for probeLeast at least, because a call takes time, and for probeMost at most:
// it may never be answered, and not every program says that it was.
//
// Each process that has met the block sends a probe. All processes could share one, as a state of
// the page, but then a process that ends would hold those of all machines, and processes of
// earlier versions would ignore it.

const (
	probeLeast = time.Second
	probeMost  = 5 * time.Second
)

// probeReason is why a call is refused that another one goes before.
const probeReason = "one call goes first after the block"

// probe is the call that goes first.
type probe struct {
	id   string // "" is none
	sent time.Time
	told bool // its caller says itself whether it was refused: see Call.TellsAnswer
}

// enter has a call go first in those of its pools whose block has just ended. It returns the
// verdict on a call that another one goes before.
func (b *blocks) enter(c *Call, charges []Charge, id string, now time.Time) *Verdict {
	if b.many.Load() == 0 || id == "" { // mostly; and no upstream blocks a family
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range charges {
		pool := charges[i].Pool
		s := b.until[pool]
		if s.probe.id == "" || s.probe.id == id || now.Before(s.until) {
			continue
		}
		wait := s.probe.sent.Add(s.hold).Sub(now)
		if wait <= 0 || wait > s.hold { // it does not answer, or the clock was set back
			b.forget(pool)
			continue
		}
		at := now.Add(wait)
		return &Verdict{
			ID: id, Pool: pool, Units: charges[i].Units, At: now, RetryAfter: wait, RetryAt: at, ResetAt: at,
			Blocked: true, Probing: true, Reason: probeReason,
		}
	}
	for i := range charges {
		pool := charges[i].Pool
		if s, known := b.until[pool]; known && s.probe.id == "" && !now.Before(s.until) {
			s.probe = probe{id, now, c.TellsAnswer}
			b.until[pool] = s
		}
	}
	return nil
}

// renamed notes that the store has granted a call under another id: it is one of a leased block.
func (b *blocks) renamed(charges []Charge, from, to string) {
	if b.many.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range charges {
		if s := b.until[charges[i].Pool]; s.probe.id == from && from != "" {
			s.probe.id = to
			b.until[charges[i].Pool] = s
		}
	}
}

// ended ends the probe of an id, and returns the pools in which it went first. If it has passed,
// the others follow. Otherwise the next one goes first.
func (b *blocks) ended(upstream, account, id string, passed, settled bool) (pools []Pool) {
	if b.many.Load() == 0 || id == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pool := range slices.Collect(maps.Keys(b.until)) {
		s := b.until[pool]
		if s.probe.id != id || pool.Upstream != upstream || pool.Account != account || settled && s.probe.told {
			continue
		}
		if pools = append(pools, pool); passed {
			b.forget(pool)
			continue
		}
		s.probe = probe{}
		b.until[pool] = s
	}
	return pools
}

// probed tells that a call has been answered, or has never left. If it has passed, those that
// wait are woken. Otherwise they ask again by themselves: a call that was refused would wake
// itself, and ask without a pause.
func (l *Ledger) probed(upstream, account, id string, passed, settled bool) {
	if pools := l.shut.ended(upstream, account, id, passed, settled); passed && pools != nil {
		l.line.freed(pools, 0, l.clock.Now())
	}
}

// Answered tells the ledger that the upstream has answered the call, and has not refused it. If
// the call was the first one after a block, the others follow at once. Settling and Done say so,
// too, unless [Call.TellsAnswer] is set. A program that says nothing of this has its other calls
// wait a little after each block, for 5 s at most.
func (r *Reservation) Answered() {
	if !r.made() {
		return
	}
	if r.price.learns {
		r.ledger.learned(r.Pool.Upstream, r.Pool.Account, r.ID, wasAccepted, false)
	}
	if r.ledger.shut.many.Load() > 0 {
		r.ledger.probed(r.Pool.Upstream, r.Pool.Account, r.ID, true, false)
	}
}
