package month

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
)

// wire is the way to the upstream and back, without sockets. A call takes its
// time on it, some of them seconds, and the upstream's clock is not ours: both
// together stay within the lag of a calendar, which is a minute.
type wire struct {
	sim     *youtubesim.Sim
	clock   *quota.SimClock // ours
	flights *rand.Rand

	units []time.Time // when each unit of that pool that was counted had been sent
	begin int         // the first of the last 24 hours
	worst int         // the most in any 24 hours
}

// newWire leads to an upstream whose clock is ahead of ours by skew. One of its
// searches has always one more page.
func newWire(clock *quota.SimClock, skew time.Duration) *wire {
	return &wire{clock: clock, sim: youtubesim.New(&youtubesim.Options{
		Seed:  1,
		Clock: func() time.Time { return clock.Now().Add(skew) },
		Faults: []youtubesim.Fault{{
			Method: "search.list", Do: youtubesim.Endless,
			Match: func(r *http.Request) bool { return r.URL.Query().Get("q") == runaway },
		}},
	})}
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := w.clock.Now()
	w.clock.Advance(w.flight())
	answer := httptest.NewRecorder()
	w.sim.ServeHTTP(answer, r)
	resp := answer.Result()
	if resp.StatusCode == http.StatusOK && workOf(r.Context()).pool() == "units" {
		w.count(sent)
	}
	w.clock.Advance(w.flight())
	return resp, nil
}

// flight is how long one way takes: 10 to 90 ms, and now and then seconds.
func (w *wire) flight() time.Duration {
	if w.flights.IntN(400) == 0 {
		return time.Duration(w.flights.Int64N(int64(15 * time.Second)))
	}
	return 10*time.Millisecond + time.Duration(w.flights.Int64N(int64(80*time.Millisecond)))
}

func (w *wire) count(sent time.Time) {
	w.units = append(w.units, sent)
	for !w.units[w.begin].After(sent.Add(-24 * time.Hour)) {
		w.begin++
	}
	w.worst = max(w.worst, len(w.units)-w.begin)
}

// workOf is for which work a call is made.
func workOf(ctx context.Context) *work { return ctx.Value(workKey{}).(*work) }

type workKey struct{}

// pool is what its calls charge.
func (w *work) pool() string {
	if w.job == "news" || w.job == runaway {
		return "searches"
	}
	return "units"
}
