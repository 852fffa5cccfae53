package memstore

import (
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Size is what a store keeps, in bytes: its pages as another store would write
// them down, and what stands beside them.
func Size(s quota.Store) (int64, error) {
	m := s.(*Store)
	m.mu.Lock()
	defer m.mu.Unlock()
	var size int
	add := func(p *window.Page) error {
		if p == nil {
			return nil
		}
		b, err := p.MarshalBinary()
		size += len(b)
		return err
	}
	for _, a := range m.accounts {
		for _, c := range a.receipts.chunks {
			size += chunkSize*100 + len(c.ids) + 40*len(c.taken)
		}
		for _, p := range a.pools {
			size += 16 * len(p.spend.tallies)
			if err := add(p.page); err != nil {
				return 0, err
			}
		}
	}
	for _, f := range m.families {
		if err := add(f.overflow); err != nil {
			return 0, err
		}
		for _, members := range []map[string]*member{f.listed, f.members.now, f.members.old} {
			for _, m := range members {
				if err := add(m.page); err != nil {
					return 0, err
				}
			}
		}
	}
	return int64(size), nil
}

// Members is how many keys of families a store knows.
func Members(s quota.Store) (known int) {
	for _, f := range s.(*Store).families {
		known += len(f.listed) + f.members.count()
	}
	return known
}
