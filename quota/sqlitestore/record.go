package sqlitestore

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Record implements [quota.Store].
func (s *Store) Record(ctx context.Context, r quota.Request) error {
	if err := r.CheckRecord(); err != nil {
		return err
	}
	if err := s.checkFamily(r.Charges[0].Pool); err != nil {
		return err
	}
	return s.transact(ctx, func(t *tx) error {
		if r.Charges[0].Pool.Key != "" {
			return t.recordMember(&r)
		}
		return t.record(&r)
	})
}

func (t *tx) record(r *quota.Request) error {
	got, err := t.receipt(r.ID, r.Charges[0].Pool)
	switch {
	case err != nil:
		return err
	case got != nil && !got.covers(r.Charges):
		return quota.OtherCharges(r.ID)
	case got != nil && !got.released: // that call never left; this one is another try
		return nil
	}
	pools, err := t.pools(r.Charges, r.Restore)
	if err != nil {
		return err
	}
	pages, err := t.layOut(r.Charges, pools)
	if err != nil {
		return err
	}
	at := make([]window.Instant, len(pages))
	for i, p := range pages {
		at[i] = quota.RecordIn(p, t.now, r.At, r.Charges[i].Units)
	}
	_, err = t.charge(r, pools, at)
	return err
}

// Block implements [quota.Store].
func (s *Store) Block(ctx context.Context, b quota.BlockRequest) error {
	if err := b.Check(); err != nil {
		return err
	}
	return s.transact(ctx, func(t *tx) error {
		pools, err := t.pools(b.Charges, false)
		if err != nil {
			return err
		}
		if _, err := t.layOut(b.Charges, pools); err != nil {
			return err
		}
		for i, p := range pools {
			if quota.BlockIn(p.page, t.now, b) {
				p.reason = b.Reason
			}
			if err := t.save(p, b.Charges[i].Windows); err != nil {
				return err
			}
		}
		return nil
	})
}
