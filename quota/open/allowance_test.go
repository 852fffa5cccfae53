package open_test

import (
	"errors"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// TestAllowance: a machine of a fleet spends its part in an outage, or nothing.
func TestAllowance(t *testing.T) {
	for name, c := range map[string]struct {
		allowance int64
		want      int
	}{"the default": {0, quota.DefaultAllowance}, "a part": {7, 7}, "none": {-1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, t.TempDir())
			o.Allowance = c.allowance
			with(t, "redis://127.0.0.1:1", o, func(opened *open.Opened) {
				admitted := 0
				for range quota.DefaultAllowance + 1 {
					if _, err := opened.Ledger.Reserve(t.Context(), quota.Call{Method: "videos.list", Outage: quota.Admit}); err == nil {
						admitted++
					} else if !errors.Is(err, quota.ErrOutage) {
						t.Fatal(err)
					}
				}
				if admitted != c.want {
					t.Errorf("%d units were admitted, want %d", admitted, c.want)
				}
			})
		})
	}
}
