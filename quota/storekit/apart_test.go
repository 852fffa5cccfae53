package storekit_test

import (
	"sync"
	"testing"

	"github.com/headroom-quota/headroom/quota/storekit"
)

// Several goroutines may close a store at the same time.
func TestWaitsTogether(t *testing.T) {
	a := storekit.NewApart()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				a.Wait()
			}
		})
	}
	all.Wait()
}
