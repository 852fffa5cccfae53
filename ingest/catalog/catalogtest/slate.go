package catalogtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// testSlate: of several who write what they have read, one writes.
func (h *Harness) testSlate(t *testing.T) {
	c, _ := h.fresh(t)
	for want := range int64(5) {
		text, version, err := c.Slate(ctx, "notices")
		if err != nil || version != want || (text == "") != (want == 0) {
			t.Fatalf("%q, version %d, %v; want version %d", text, version, err, want)
		}
		var writers sync.WaitGroup
		var won atomic.Int64
		for n := range 4 {
			writers.Go(func() {
				written, err := c.SetSlate(ctx, "notices", fmt.Sprint("of ", n), version)
				if err != nil {
					t.Error(err)
				}
				if written {
					won.Add(1)
				}
			})
		}
		writers.Wait()
		if n := won.Load(); n != 1 {
			t.Errorf("%d of 4 have written", n)
		}
	}
	if text, version, err := c.Slate(ctx, "others"); text != "" || version != 0 || err != nil {
		t.Error(text, version, err)
	}
}
