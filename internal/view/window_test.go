package view_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// usageOf returns a pool with these windows and nothing used.
func usageOf(t *testing.T, specs ...window.Spec) quota.Usage {
	t.Helper()
	var u quota.Usage
	for _, s := range specs {
		spec, err := s.Normal()
		if err != nil {
			t.Fatal(err)
		}
		u.Allowances = append(u.Allowances, quota.WindowUsage{
			WindowState: quota.WindowState{Window: spec.String(), ResetAt: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}, Spec: spec,
		})
	}
	return u
}

func TestALogIsNoCalendar(t *testing.T) {
	log := window.Spec{Per: 24 * time.Hour, Algorithm: window.Exact}
	p := view.Pools([]quota.Usage{usageOf(t, log, window.Spec{Period: window.Day})})[0]
	if got := p.Name(0) + ", " + p.Name(1); got != "24h log, day" {
		t.Errorf("the windows are called %s", got)
	}
	if p.Windows[0].ResetAt != nil || p.Windows[1].ResetAt == nil {
		t.Errorf("a log resets at %v, a calendar at %v", p.Windows[0].ResetAt, p.Windows[1].ResetAt)
	}
}
