package sqlitestore

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Record implements [quota.Store].
func (s *Store) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	if err := r.CheckRecord(); err != nil {
		return nil, err
	}
	if err := s.checkFamily(r.Charges[0].Pool); err != nil {
		return nil, err
	}
	var recorded []int64
	err := s.transact(ctx, func(t *tx) (err error) {
		if r.Charges[0].Pool.Key != "" {
			recorded, err = t.recordMember(&r)
		} else {
			recorded, err = t.record(&r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return quota.Recorded(r.Charges, recorded), nil
}

func (t *tx) record(r *quota.Request) ([]int64, error) {
	recorded := make([]int64, len(r.Charges))
	got, err := t.receipt(r.ID, r.Charges[0].Pool)
	switch {
	case err != nil:
		return nil, err
	case got != nil && !got.covers(r.Charges):
		return nil, quota.OtherCharges(r.ID)
	case got != nil && !got.released: // that call never left; this one is another try
		for i, c := range got.taken {
			recorded[i] = c.recorded
		}
		return recorded, nil
	}
	pools, err := t.pools(r.Charges, r.Restore)
	if err != nil {
		return nil, err
	}
	pages, err := t.layOut(r.Charges, pools)
	if err != nil {
		return nil, err
	}
	at := make([]window.Instant, len(pages))
	for i, p := range pages {
		at[i], recorded[i] = quota.RecordIn(p, t.now, r.At, r.Charges[i].Units)
	}
	_, err = t.charge(r, pools, at, recorded)
	return recorded, err
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
