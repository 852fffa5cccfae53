package meter_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// The call that finds out whether an upstream lets calls through again may end without an answer of the upstream. Then
// the next one finds out, at once.
func TestAProbeWithoutAnAnswerHoldsUpNobody(t *testing.T) {
	answer := func(status int, headers ...string) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	}
	for name, c := range map[string]struct {
		probe  func() (*http.Response, error)
		answer bool // it counts as an answer, so the next call goes at the rate
	}{
		"the connection breaks":     {func() (*http.Response, error) { return nil, errors.New("reset by peer") }, false},
		"a redirect with the key":   {func() (*http.Response, error) { return answer(302, "Location", "https://api.example.com/?key=x") }, false},
		"the key is refused":        {func() (*http.Response, error) { return answer(401) }, false},
		"another transport refuses": {func() (*http.Response, error) { return answer(503, meter.RefusedHeader, "outage") }, false},
		"the answer breaks": {func() (*http.Response, error) {
			return &http.Response{StatusCode: 403, Header: http.Header{}, Body: io.NopCloser(tornBody{})}, nil
		}, true},
		"an answer": {func() (*http.Response, error) { return answer(200) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    api_key: {header: X-Api-Key, query: key}
    refusals: [{status: 401, credential: true}, {status: 429, for: 30s}, {status: 403, reason: [quota], for: 30s}]
    pools: {calls: {quota: {learn: {from: 5, to: 1000}}}}
    default: {'*': {pool: calls, cost: 1}}
`, r.clock)
			next := func() (*http.Response, error) { return answer(429) }
			r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) { return next() })})
			send := func() error {
				_, _, err := r.do(t.Context(), "GET", "https://api.example.com/things", "")
				return err
			}
			sent := func() { // as soon as the pool lets it through
				for errors.Is(send(), quota.ErrRefused) {
					r.clock.Advance(100 * time.Millisecond)
				}
				r.flush()
			}
			for range 3 {
				sent()
			}
			next = c.probe
			sent()
			next = func() (*http.Response, error) { return answer(200) }
			if err := send(); errors.Is(err, quota.ErrRefused) != c.answer {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

type tornBody struct{}

func (tornBody) Read([]byte) (int, error) { return 0, errors.New("reset by peer") }
