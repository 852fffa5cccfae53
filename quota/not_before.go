package quota

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// notBefore remembers refusals. Until a call fits again, the same call is refused without a
// question to the store. With Options.NotBefore, so are heavier calls: they are told the time
// of the lighter one, and may have to wait longer. That would be wrong only if units came
// back early. Units that this ledger gives back end it at once. Units that another process gives
// back are noticed after at most Options.NotBefore. Blocks are never remembered, so the
// store is asked about them each time, and an unblock counts for the next call.
type notBefore struct {
	most time.Duration // how long a refusal is believed; 0: only those of families

	some    atomic.Bool // whether told may have any
	cleared atomic.Uint64
	mu      sync.Mutex
	told    map[Pool]refused // by the pool of the first charge
}

// refused is a refusal of charges.
type refused struct {
	charges     []Charge
	alone       bool // only the same call believes it; a heavier one asks the store for its time
	verdict     Verdict
	from, until time.Time // by the ledger's clock
}

const (
	// familyNotBefore is how long a refusal of a family's member is believed by default.
	// Only leased blocks give units back to them.
	familyNotBefore = 500 * time.Millisecond
	// maxRefused bounds the refusals that are remembered.
	maxRefused = 4096
)

// believes returns how long a refusal of charges may be believed.
func (n *notBefore) believes(charges []Charge) time.Duration {
	most := n.most
	if most == 0 && charges[0].Pool.Name == "" {
		most = familyNotBefore
	}
	if most <= 0 {
		return 0
	}
	for i := range charges {
		if charges[i].Windows[0].Spec.InFlight() { // a slot may come back at any time
			return 0
		}
	}
	return most
}

// learn notes a refusal by the store, which was asked at a time. The mark is what cleared was then.
func (n *notBefore) learn(v *Verdict, charges []Charge, asked time.Time, mark uint64) {
	most := n.believes(charges)
	if v.Allowed || v.Impossible || v.Blocked || v.Overflow || most == 0 || v.RetryAfter <= 0 {
		return
	}
	r := refused{charges: slices.Clone(charges), alone: n.most == 0, verdict: *v, from: asked, until: asked.Add(min(v.RetryAfter, most))}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.some.Store(true)            // before the look at the mark, so that a clear from now on is not missed
	if n.cleared.Load() != mark { // units came back meanwhile
		return
	}
	if n.told == nil {
		n.told = make(map[Pool]refused)
	}
	for pool := range n.told {
		if len(n.told) < maxRefused {
			break
		}
		delete(n.told, pool) // any
	}
	n.told[charges[0].Pool] = r
}

// clear forgets all refusals: units came back, or limits may have changed.
func (n *notBefore) clear() {
	n.cleared.Add(1)
	if !n.some.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = nil
	n.some.Store(false)
}

// refuses returns the verdict on charges that cannot fit yet.
func (n *notBefore) refuses(charges []Charge, now time.Time, v *Verdict) bool {
	if !n.some.Load() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.told[charges[0].Pool]
	if !ok {
		return false
	}
	if now.Before(r.from) || !now.Before(r.until) {
		delete(n.told, charges[0].Pool)
		n.some.Store(len(n.told) > 0)
		return false
	}
	if !r.covers(charges) {
		return false
	}
	passed := now.Sub(r.from)
	*v = r.verdict
	v.At, v.RetryAfter = v.At.Add(passed), v.RetryAfter-passed
	for i := range charges {
		if charges[i].Pool == v.Pool {
			v.Units = charges[i].Units
		}
	}
	return true
}

// covers reports whether what is known of the refused charges holds for others: they are as
// heavy, or heavier, under the same limits, and could ever be granted.
func (r *refused) covers(charges []Charge) bool {
	if len(charges) != len(r.charges) {
		return false
	}
	for i := range charges {
		a, b := &r.charges[i], &charges[i]
		same := a.Pool == b.Pool && a.Revision == b.Revision && a.Units <= b.Units && a.MaxKeys == b.MaxKeys && len(a.Windows) == len(b.Windows)
		same = same && (a.Units == b.Units || !r.alone)
		for k := 0; same && k < len(a.Windows); k++ {
			x, y := &a.Windows[k], &b.Windows[k]
			same = x.Hash == y.Hash && x.Limit == y.Limit && b.Units <= y.Limit
		}
		if !same {
			return false
		}
	}
	return true
}
