package storetest_test

import (
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storetest"
)

func TestMemory(t *testing.T) { storetest.Run(t, memory()) }

// A harness that can do next to nothing still passes, with the rest skipped.
func TestLeastHarness(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: memory().Open})
}

// Handles on one store in one process are as good as shared data.
func TestSharedMemory(t *testing.T) {
	h := memory()
	same := func(_ testing.TB, s quota.Store) quota.Store { return s }
	h.Share, h.Reopen = same, same
	storetest.Run(t, h)
}
