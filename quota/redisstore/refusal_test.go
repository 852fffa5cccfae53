package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// Who is refused asks again and again, so it must not take the long way: not in the
// bucket of the last grant, nor hours later.
func TestARefusalTakesOneScript(t *testing.T) {
	server := start(t)
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	s := open(t, dial(t, server.Addr), prefix())
	full := quota.Request{ID: "full", Fresh: true, Charges: []quota.Charge{units(100, 100)}}
	granted(t, "all there is", s, full)
	granted(t, "again, so that the births are known", s, quota.Request{ID: "full", Charges: full.Charges})
	for i, later := range []time.Duration{0, time.Second, time.Minute, 5 * time.Hour, 24 * time.Hour} {
		clock.Advance(later)
		run(t, server, "config", "resetstat")
		v, err := s.Reserve(bg, quota.Request{ID: fmt.Sprint(i), Fresh: true, Charges: []quota.Charge{units(1, 100)}})
		if err != nil || v.Allowed || v.Used != 100 || v.RetryAfter <= 0 {
			t.Errorf("%s later: %+v, %v; want a refusal", later, v, err)
		}
		stats, _ := run(t, server, "info", "commandstats").(string)
		if _, stats, _ = strings.Cut(stats, "cmdstat_evalsha:calls="); !strings.HasPrefix(stats, "1,") {
			t.Errorf("%s later: %.20q scripts, want 1", later, stats)
		}
	}
}
