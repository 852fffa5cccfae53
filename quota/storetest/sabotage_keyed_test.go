package storetest_test

import (
	"context"
	"slices"

	"github.com/headroom-quota/headroom/quota"
)

// noKeys has one page for all keys of a pool.
type noKeys struct{ quota.Store }

func (s noKeys) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	r.Charges = slices.Clone(r.Charges)
	for i := range r.Charges {
		if p := &r.Charges[i].Pool; p.Name != "" && p.Key != "" {
			p.Key = "everybody"
		}
	}
	return s.Store.Reserve(ctx, r)
}

// neverFull has a page for each key of a pool, however many there are.
type neverFull struct{ quota.Store }

func (s neverFull) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	r.Charges = slices.Clone(r.Charges)
	for i := range r.Charges {
		if c := &r.Charges[i]; c.Pool.Name != "" && c.MaxKeys > 0 {
			c.MaxKeys = 1 << 20
		}
	}
	return s.Store.Reserve(ctx, r)
}

// blocksAll shuts the other keys of a pool, too.
type blocksAll struct{ quota.Store }

func (s blocksAll) Block(ctx context.Context, b quota.BlockRequest) error {
	b.Charges = slices.Clone(b.Charges)
	for _, c := range b.Charges {
		if c.Pool.Key == "a" {
			c.Pool.Key = "b"
			b.Charges = append(b.Charges, c)
		}
	}
	return s.Store.Block(ctx, b)
}
