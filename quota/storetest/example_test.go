package storetest_test

import (
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// memory is the harness of a store that is kept in memory: it takes a clock, and
// its data belongs to one process and ends with it.
func memory() storetest.Harness {
	clock := storetest.NewClock()
	return storetest.Harness{
		Open: func(testing.TB) quota.Store {
			return memstore.New(&memstore.Options{Clock: clock})
		},
		SetClock: clock.Move,
		Families: true,
	}
}

// A store's whole conformance test. Where it can do more than memory, its
// harness says so: Share, Reopen, Size.
func ExampleRun() {
	_ = func(t *testing.T) { // TestStore
		storetest.Run(t, memory())
	}
}
