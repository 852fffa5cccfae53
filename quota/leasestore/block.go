package leasestore

import (
	"slices"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// block is a reservation of the store for many calls of a line.
type block struct {
	line    *line
	verdict quota.Verdict // of the store; its ID and Nonce are those of the block
	tight   int           // the charge that the verdict is about
	units   []int64       // taken, by charge
	left    []int64       // not handed out
	calls   int64         // handed out
	sent    time.Time     // before the request left
	wall    time.Time     // sent, by the wall clock alone
	answer  time.Time     // when the store had answered
	life    time.Duration // since sent
	timer   *time.Timer
}

// lives reports whether units may still be handed out. A wall clock that was set back ends
// a block, because the difference is unknown.
func (b *block) lives(now time.Time) bool {
	elapsed, wall := now.Sub(b.sent), now.Round(0).Sub(b.wall)
	return elapsed >= 0 && wall >= 0 && max(elapsed, wall) < b.life
}

// large reports whether a block lives for too long, or has too many units left, while others wait for them.
func (b *block) large() bool {
	for i := range b.left {
		if b.left[i] > lead(&b.line.charges[i]) {
			return true
		}
	}
	return b.life > crowdedLife
}

// lifeOf returns how long units that the store counts at an instant may be handed out. It
// is counted from that instant, so it may be counted from before the request left.
func lifeOf(at time.Time, charges []quota.Charge) time.Duration {
	now := window.At(at)
	least := window.MaxSlack
	for i := range charges {
		c := &charges[i]
		least = min(least, c.Lease.Life)
		for j := range c.Windows {
			s := &c.Windows[j].Spec
			if s.Calendar() {
				_, boundary := s.Bounds(now)
				least = min(least, boundary.Sub(now)-max(s.Lag, 0))
				continue
			}
			if s.Estimates() { // it counts in fixed windows, from 1970 on
				per := window.Instant(s.Per.Microseconds())
				least = min(least, (per - (now%per+per)%per).Sub(0))
				continue
			}
			late := s.Span() - s.Per - s.Precision
			if len(charges) == 1 { // else another page may have told the time
				late += s.Slack(now)
			}
			least = min(least, late)
		}
	}
	return least
}

// draw hands out the units of a request, and reports whether there are enough. Its verdict
// has no id yet: see named.
func (b *block) draw(r *quota.Request, now time.Time) (v quota.Verdict, ok bool) {
	for i := range r.Charges {
		if b.left[i] < r.Charges[i].Units {
			return v, false
		}
	}
	for i := range r.Charges {
		b.left[i] -= r.Charges[i].Units
	}
	b.calls++
	v = b.verdict
	b.verdict.Rebased = false // it was told
	v.Units = r.Charges[b.tight].Units
	v.Used -= b.left[b.tight]
	v.Remaining = max(v.Limit-v.Used, 0)
	if since := now.Sub(b.answer); since > 0 {
		v.At = v.At.Add(since)
	}
	return v, true
}

// named gives a verdict of draw the id and the nonce of the call, which is the given one
// of its block.
func named(v *quota.Verdict, r *quota.Request, call int64) {
	whole := v.Nonce
	if v.Nonce, v.Generation = (quota.Nonce{}), 0; r.ID == "" || member(r.Charges) {
		v.ID = r.ID
		return
	}
	var units [maxPools]int64
	for i := range r.Charges {
		units[i] = r.Charges[i].Units
	}
	name := strconv.FormatInt(call, 36)
	if owner, _ := quota.SplitID(r.ID); owner != "" {
		name += "@" + owner // Token.Owner reads it
	}
	p := storekit.Part{Of: v.ID, Name: name, Calls: -1, Units: units[:len(r.Charges)]}
	v.ID = p.ID()
	v.Nonce = storekit.PartNonce(whole, v.ID)
}

// rest is what the store is told of the part of a block that was not handed out; nil if there is
// nothing to say. Settled to nothing, it gives the units back, and counts the calls. A key of a
// family counts no calls, and its units go back to the instant of their grant.
func (b *block) rest() *debt {
	d := &debt{charges: b.line.charges, units: slices.Max(b.left) > 0}
	if member(d.charges) {
		if d.back = true; !d.units || b.verdict.Generation == 0 {
			return nil
		}
		d.request = &quota.Request{Charges: slices.Clone(d.charges), At: b.verdict.At, Generation: b.verdict.Generation}
		d.request.Charges[0].Units = -b.left[0]
		return d
	}
	p := storekit.Part{Of: b.verdict.ID, Name: "rest", Calls: b.calls - 1, Units: b.left}
	if !d.units && p.Calls <= 0 {
		return nil
	}
	d.token = b.verdict.Token()
	d.token.ID = p.ID()
	d.token.Nonce = storekit.PartNonce(b.verdict.Nonce, d.token.ID)
	return d
}
