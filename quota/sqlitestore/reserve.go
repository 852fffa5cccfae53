package sqlitestore

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Reserve implements [quota.Store].
func (s *Store) Reserve(ctx context.Context, r quota.Request) (v quota.Verdict, err error) {
	if err := r.Check(); err != nil {
		return quota.Verdict{}, err
	}
	if err := s.checkFamily(r.Charges[0].Pool); err != nil {
		return quota.Verdict{}, err
	}
	err = s.transact(ctx, func(t *tx) error {
		if r.Charges[0].Pool.Key != "" {
			v, err = t.reserveMember(&r)
		} else {
			v, err = t.reserve(&r)
		}
		return err
	})
	if err != nil {
		return quota.Verdict{}, err
	}
	return v, nil
}

func (t *tx) reserve(r *quota.Request) (quota.Verdict, error) {
	if !r.Fresh {
		got, err := t.receipt(r.ID, r.Charges[0].Pool)
		if err != nil {
			return quota.Verdict{}, err
		}
		if got != nil && !(got.released && got.covers(r.Charges)) {
			return t.repeat(r, got)
		}
	}
	pools, err := t.pools(r.Charges, false)
	if err != nil {
		return quota.Verdict{}, err
	}
	pages, err := t.layOut(r.Charges, pools)
	if err != nil {
		return quota.Verdict{}, err
	}
	v := quota.Decide(t.now, r.Charges, pages)
	v.ID = r.ID
	if !v.Allowed {
		if v.Blocked {
			v.Reason = reasonOf(v.Pool, pools)
		}
		return v, t.saveMoved(r.Charges, pools)
	}
	at := make([]window.Instant, len(pages))
	for i, p := range pages {
		at[i] = p.Latest
	}
	v.Nonce, err = t.charge(r, pools, at, nil)
	return v, err
}

// saveMoved saves pages that were laid out again or re-based, though nothing was
// granted.
func (t *tx) saveMoved(charges []quota.Charge, pools []*pool) error {
	for i, p := range pools {
		if !p.moved() {
			continue
		}
		if err := t.save(p, charges[i].Windows); err != nil {
			return err
		}
	}
	return nil
}

func reasonOf(name quota.Pool, pools []*pool) string {
	for _, p := range pools {
		if p.pool == name {
			return p.reason
		}
	}
	return ""
}

// charge writes down what was taken from pools, and when: the pages, and a row of
// the table reservations for each. What was recorded is what was asked, if it is nil.
func (t *tx) charge(r *quota.Request, pools []*pool, at []window.Instant, recorded []int64) (nonce [16]byte, err error) {
	var id, secret driver.Value
	if r.ID != "" {
		rand.Read(nonce[:])
		id, secret = r.ID, nonce[:]
	}
	made, l := int64(window.At(t.now)), &r.Labels
	for i, p := range pools {
		c := &r.Charges[i]
		units := c.Units
		if recorded != nil {
			units = recorded[i]
		}
		if err := t.settleZone(p, c.Zone); err != nil {
			return nonce, err
		}
		if err := t.save(p, c.Windows); err != nil {
			return nonce, err
		}
		err := t.exec(reservationAdd, p.birth.id, id, secret, made, int64(at[i]), t.s.today.of(at[i], c.Zone), units, c.Units,
			p.page.Generation, l.Method, l.Job, l.Region, l.Class, l.Reason)
		if err != nil {
			return nonce, err
		}
	}
	return nonce, t.prune()
}

// settleZone remembers whose days a pool's spend is counted by.
func (t *tx) settleZone(p *pool, zone *time.Location) error {
	name := ""
	if zone != nil && zone != time.UTC {
		name = zone.String()
	}
	b := p.birth
	if b.zone == name {
		return nil
	}
	b.zone = name
	if b.id == 0 {
		return nil
	}
	return t.exec(birthSave, b.id, b.zone, int64(b.born), int64(b.until))
}

// repeat answers an id that has its receipt.
func (t *tx) repeat(r *quota.Request, got *receipt) (quota.Verdict, error) {
	if !got.covers(r.Charges) {
		return quota.Verdict{}, quota.OtherCharges(r.ID)
	}
	pools, err := t.pools(r.Charges, false)
	if err != nil {
		return quota.Verdict{}, err
	}
	pages, err := t.layOut(r.Charges, pools)
	if err != nil {
		return quota.Verdict{}, err
	}
	v := quota.Standing(t.now, r.Charges, pages)
	v.ID, v.Nonce, v.At = r.ID, got.nonce, got.taken[0].At.Time()
	return v, t.saveMoved(r.Charges, pools)
}
