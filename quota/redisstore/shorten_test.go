package redisstore_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

// A revision makes a pool's windows shorter. The page stays for as long as anybody
// remembers it, and is gone then. That is no loss: neither to the process that laid it
// out, nor to one that starts later or that had only seen the longer windows.
func TestPageOfShortenedWindowsRunsOut(t *testing.T) {
	for name, births := range map[string]func(t *testing.T) storekit.BirthKeeper{
		"in a process": func(*testing.T) storekit.BirthKeeper { return nil },
		"on a machine": func(t *testing.T) storekit.BirthKeeper { return machine(t) },
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			redisclock.Set(clock.Now)
			t.Cleanup(func() { redisclock.Set(nil) })
			c, p, kept := dial(t, server.Addr), prefix(), births(t)
			s, idle := openWith(t, c, redisstore.Options{Prefix: p, Births: kept}), openWith(t, c, redisstore.Options{Prefix: p, Births: kept})
			long := quota.Request{Charges: []quota.Charge{units(1, 100)}}
			short := quota.Request{Charges: []quota.Charge{units(1, 100)}}
			spec, err := window.Spec{Per: 10 * time.Minute}.Normal()
			if err != nil {
				t.Fatal(err)
			}
			short.Charges[0].Revision, short.Charges[0].Windows = 2, []window.Limit{window.NewLimit(spec, 100)}
			granted(t, "by the long windows", s, long)
			granted(t, "by the long windows", idle, long)
			granted(t, "by the short ones", s, short)
			left := expire(t, c, page(p))
			if left < 24*time.Hour {
				t.Fatalf("the page has %s to live, and a process that has seen the long windows only remembers it for longer", left)
			}
			clock.Advance(left)
			if n := granted(t, "after the pause", s, short); n != 1 {
				t.Errorf("%d used, want 1", n)
			}
			if kept == nil {
				return
			}
			clock.Advance(expire(t, c, page(p)))
			granted(t, "a process that starts then", openWith(t, c, redisstore.Options{Prefix: p, Births: kept}), short)
			clock.Advance(expire(t, c, page(p)))
			granted(t, "who had seen the long windows only", idle, short)
		})
	}
}
