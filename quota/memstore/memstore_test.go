package memstore_test

import (
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Run(t, storetest.Harness{
		Open:     func(testing.TB) quota.Store { return memstore.New(&memstore.Options{Clock: clock}) },
		SetClock: clock.Move,
		Families: true,
	})
}
