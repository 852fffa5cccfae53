package quota_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// readable is a store that can be read and not written.
type readable struct{ quota.Store }

func (readable) Settle(context.Context, quota.Token, quota.Units) (quota.Settlement, error) {
	return quota.Settlement{}, errors.New("the file is locked")
}

func TestReady(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte("revision: 1\nupstreams: {shop: {pools: {units: {quota: 10, windows: [{per: 1h}]}}, methods: {get: 1}}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ready := func(s quota.Store) (*quota.Ledger, error) {
		l, err := quota.New(costs, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l, l.Ready(t.Context())
	}
	t.Run("a ledger that takes reservations is", func(t *testing.T) {
		l, err := ready(memstore.New(nil))
		if err != nil {
			t.Error(err)
		}
		if all, err := l.View().Usage(t.Context(), "", ""); err != nil || all[0].Known {
			t.Errorf("it has charged the pool: %+v, %v", all, err)
		}
	})
	t.Run("one that can only be read is not", func(t *testing.T) {
		if _, err := ready(readable{memstore.New(nil)}); !errors.Is(err, quota.ErrOutage) {
			t.Errorf("it says %v", err)
		}
	})
	t.Run("a ledger that nobody made is not", func(t *testing.T) {
		if err := new(quota.Ledger).Ready(t.Context()); err == nil {
			t.Error("it is ready")
		}
	})
}
