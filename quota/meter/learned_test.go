package meter_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/meter"
)

// A transport learns a limit that nobody publishes from the answers, and does not shut the pool.
func TestTransportLearnsALimit(t *testing.T) {
	t.Run("by its status", func(t *testing.T) {
		transportLearns(t, "{status: 429, for: 30s}", http.StatusTooManyRequests, "")
	})
	t.Run("by a body of GraphQL", func(t *testing.T) {
		transportLearns(t, "{status: 200, body: RATE_LIMIT, for: 30s}", http.StatusOK, `{"errors": [{"type": "RATE_LIMIT"}]}`)
	})
}

func transportLearns(t *testing.T, rule string, refuses int, with string) {
	var r *rig
	var passed []time.Time // in the last ten seconds
	accepted, refused, until := 0, 0, noon.Add(10*time.Minute)
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		now := r.clock.Now()
		for len(passed) > 0 && now.Sub(passed[0]) >= 10*time.Second {
			passed = passed[1:]
		}
		if len(passed) >= 50 {
			refused++
			w.Header().Set("Retry-After", "3600") // which is not true
			w.WriteHeader(refuses)
			_, _ = w.Write([]byte(with))
			return
		}
		accepted++
		passed = append(passed, now)
	}, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [`+rule+`]
    pools:
      calls: {quota: {learn: {from: 2, to: 1000}}}
    default: {'*': {pool: calls, cost: 1}}
`, r.clock)
	r.meter(&meter.Options{MaxWait: time.Hour})
	for r.clock.Now().Before(until) {
		if status, _, err := r.do(t.Context(), "GET", "https://api.example.com/things", ""); err != nil || status != 200 && status != 429 {
			t.Fatal(status, err)
		}
		r.clock.Advance(20 * time.Millisecond) // a call takes a while
	}
	if accepted < 2000 { // 3,000 fit
		t.Errorf("%d calls passed in ten minutes, want about 3,000", accepted)
	}
	if refused > accepted/25 {
		t.Errorf("%d calls were refused beside %d that passed", refused, accepted)
	}
	usage, err := r.ledger.View().Usage(t.Context(), "", "")
	if err != nil || usage[0].BlockedBy != "" || !usage[0].Blocked.IsZero() {
		t.Fatalf("the pool is shut: %+v %v", usage, err)
	}
	if k := usage[0].Learned; k.Rate < 3 || k.Rate > 7 || int(k.Refusals) != refused {
		t.Errorf("learned is %+v, want about 5 a second from %d refusals", k, refused)
	}
}

// learnedBook has a learned limit beside other pools. Its refusals and its pools follow.
const learnedBook = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    feedback: [{pool: hourly, remaining: {header: X-Left}}]
    pools:
      calls: {quota: {learn: {from: 5, to: 50}}}
      daily: {quota: 1000, windows: [{per: day}]}
      hourly: {quota: 1000, windows: [{per: 1h}]}
      slots: {windows: [{in_flight: 3, ttl: 10s}]}
    methods:
      charge: {route: POST /charge, charge: {calls: 1, daily: 1, hourly: 1, slots: 1}}
      list: {route: GET /list, charge: {hourly: 1, slots: 1}}
      watch: {route: GET /watch, charge: {slots: 1}}
    refusals:
`

// A refusal that names no pool is the matter of the learned limit, or else of the pools that are no slots.
func TestPoolsOfARefusalThatNamesNone(t *testing.T) {
	for _, c := range []struct {
		name, call, rule, left string
		blocked                []string
		told                   int64 // refusals that the learned limit knows
		probe                  bool  // the learned limit waits for one call
	}{
		{"the learned limit", "POST /charge", "{status: 429, for: 10s}", "", nil, 1, true},
		{"a header names the time", "POST /charge", "{status: 429, until: retry-after}", "", nil, 1, true},
		{"a pool has room", "POST /charge", "{status: 429, for: 10s}", "900", nil, 1, true},
		{"a pool is used up", "POST /charge", "{status: 429, for: 10s}", "0", []string{"hourly"}, 1, true},
		{"until the reset", "POST /charge", "{status: 429, until: reset}", "", []string{"daily"}, 1, true},
		{"the rule names pools", "POST /charge", "{status: 429, pools: [slots, calls], for: 10s}", "", []string{"slots"}, 1, true},
		{"the rule names no learned limit", "POST /charge", "{status: 429, pools: daily, for: 10s}", "", []string{"daily"}, 0, false},
		{"no learned limit", "GET /list", "{status: 429, for: 10s}", "", []string{"hourly"}, 0, false},
		{"slots alone", "GET /watch", "{status: 429, for: 10s}", "", []string{"slots"}, 0, false},
		{"no rule", "POST /charge", "{status: 503, for: 10s}", "", nil, 1, true},
		{"a rule without its header", "POST /charge", "{status: 429, until: x-reset}", "", nil, 1, true},
		{"no rule, and no learned limit", "GET /list", "{status: 503, for: 10s}", "", nil, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := priced(t, learnedBook+"      - "+c.rule+"\n", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "10")
				if c.left != "" {
					w.Header().Set("X-Left", c.left)
				}
				w.WriteHeader(http.StatusTooManyRequests)
			})
			verb, path, _ := strings.Cut(c.call, " ")
			if status, _, err := r.do(t.Context(), verb, "https://api.example.com"+path, ""); err != nil || status != 429 {
				t.Fatal(status, err)
			}
			r.flush()
			var blocked []string
			for _, pool := range []string{"calls", "daily", "hourly", "slots"} {
				if !r.usage("api/" + pool).Blocked.IsZero() {
					blocked = append(blocked, pool)
				}
			}
			if !slices.Equal(blocked, c.blocked) {
				t.Errorf("blocked: %q, want %q", blocked, c.blocked)
			}
			if k := r.usage("api/calls").Learned; k.Refusals != c.told || k.Refused != c.probe || k.Rate > 5 {
				t.Errorf("learned is %+v, want %d refusals, and none accepted", k, c.told)
			}
		})
	}
}

// A refusal that no rule is about leaves the learned rate low, and the log says so.
func TestNoRuleIsAboutARefusalOfALearnedLimit(t *testing.T) {
	r := priced(t, learnedBook+"      - {status: 429, until: x-reset}\n", answering(429, ""))
	refused := 0
	for range 100 {
		if status, _, err := r.do(t.Context(), "POST", "https://api.example.com/charge", ""); err == nil && status == 429 {
			refused++
		}
		r.clock.Advance(20 * time.Millisecond)
	}
	r.flush()
	if k := r.usage("api/calls").Learned; k.Refusals != int64(refused) || k.Rate > 5 || refused == 100 {
		t.Errorf("learned is %+v from %d refusals", k, refused)
	}
	if !strings.Contains(r.log.String(), "learned=api/calls") {
		t.Errorf("the log does not say that the limit is told:\n%s", r.log)
	}
}
