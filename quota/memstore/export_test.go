package memstore

import (
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Size is what a store keeps, in bytes: its pages as another store would write
// them down, and what stands beside them.
func Size(s quota.Store) (int64, error) {
	b := s.(*Store).backend
	var size int64
	add := func(p *window.Page) error {
		bytes, err := p.MarshalBinary()
		size += int64(len(bytes))
		return err
	}
	for _, a := range b.accounts {
		for _, p := range a.pools {
			size += 16 * int64(len(p.spend.tallies))
			if p.Page == nil {
				continue // of a keyed pool: its pages are members
			}
			if err := add(p.Page); err != nil {
				return 0, err
			}
		}
	}
	for _, f := range b.families {
		for _, members := range []map[string]*member{f.listed, f.members.now, f.members.old, {"": f.overflow}} {
			for _, m := range members {
				if m == nil {
					continue
				}
				if err := add(m.page); err != nil {
					return 0, err
				}
			}
		}
	}
	return size, nil
}

// Members is how many keys of families a store knows.
func Members(s quota.Store) (known int) {
	for _, f := range s.(*Store).backend.families {
		known += len(f.listed) + f.members.count()
	}
	return known
}

// Receipts is how many receipts a store keeps.
func Receipts(s quota.Store) (kept int) {
	for _, a := range s.(*Store).backend.accounts {
		for _, b := range a.receipts.batches {
			kept += len(b.receipts)
		}
	}
	return kept
}
