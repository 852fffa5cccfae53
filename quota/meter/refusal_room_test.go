package meter_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An answer that refuses a call for want of another limit than that which it tells does not shut the pool until the
// reset of the one that has room.
func TestARefusalByAnotherLimitThanTheOneThatIsTold(t *testing.T) {
	const (
		hour = `- {status: 429, until: {header: X-Reset, as: unix}}`
		wait = `- {status: 429, until: {header: X-Again, as: seconds}}`
		left = `remaining: {header: X-Left}`
		used = `limit: {header: X-Limit}, used: {header: X-Used}`
	)
	for _, c := range []struct {
		name, refusal, feedback string
		header                  map[string]string
		want                    time.Duration
	}{
		{"nothing is left", hour, left, map[string]string{"X-Left": "0"}, 40 * time.Minute},
		{"some are left", hour, left, map[string]string{"X-Left": "400"}, 3 * time.Minute},
		{"too few are left", hour, left, map[string]string{"X-Left": "39"}, 40 * time.Minute},
		{"some are not used", hour, used, map[string]string{"X-Limit": "1000", "X-Used": "600"}, 3 * time.Minute},
		{"all are used", hour, used, map[string]string{"X-Limit": "1000", "X-Used": "1000"}, 40 * time.Minute},
		{"nobody tells what is left", hour, left, nil, 40 * time.Minute},
		{"the reset is soon", hour, left, map[string]string{"X-Left": "400", "X-Reset": fmt.Sprint(noon.Add(time.Minute).Unix())}, time.Minute},
		{"Retry-After beside the reset", hour, left, map[string]string{"X-Left": "400", "Retry-After": "77"}, 40 * time.Minute},
		{"the answer says when", wait, left, map[string]string{"X-Left": "400", "X-Again": "1800"}, 30 * time.Minute},
		{"Retry-After says when", "- {status: 429, for: 10s}", left, map[string]string{"X-Left": "400", "Retry-After": "1800"}, 30 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", noon.UTC().Format(http.TimeFormat))
				w.Header().Set("X-Reset", fmt.Sprint(noon.Add(40*time.Minute).Unix()))
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(http.StatusTooManyRequests)
			}, nil)
			r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    pools: {units: {quota: 1000, windows: [{per: 1h}]}}
    feedback: [{pool: units, `+c.feedback+`, reset: {header: X-Reset, as: unix}}]
    refusals:
      `+c.refusal+`
    methods: {list: {route: GET /v1/items, charge: {units: 20}}}
`, r.clock)
			r.meter(nil)
			if _, _, err := r.do(t.Context(), "GET", items, ""); err != nil {
				t.Fatal(err)
			}
			reason := r.usage("api/units").Reason
			spaced := strings.HasSuffix(reason, "though units are left")
			if spaced != (c.want < 15*time.Minute) {
				t.Errorf("the reason is %q", reason)
			}
			if strings.Contains(r.log.String(), "calls of the pool are spaced after this") != spaced {
				t.Errorf("spaced: %v, and the log says\n%s", spaced, r.log)
			}
			if got := r.usage("api/units").Blocked.Sub(noon); got != c.want {
				t.Errorf("shut for %s, want %s", got, c.want)
			}
		})
	}
}
