package jobs

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// TestTrouble: a share of the calls of a sandbox fails, each takes its time, and keys are refused.
func TestTrouble(t *testing.T) {
	const calls = 400
	failed := func(tr trouble) (all int) {
		o := &youtubesim.Options{Seed: 7, Quota: youtubesim.Quota{youtubesim.Default: 10 * calls}}
		if err := tr.add(o); err != nil {
			t.Fatal(err)
		}
		sim := tr.slow(youtubesim.New(o))
		for range calls {
			w := httptest.NewRecorder()
			sim.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/youtube/v3/videos?part=id&id=abc&key=any", nil))
			if w.Code != http.StatusOK {
				all++
			}
		}
		return all
	}
	if n := failed(trouble{fail: "0%"}); n != 0 {
		t.Errorf("%d calls fail without trouble", n)
	}
	five := failed(trouble{fail: "5%"})
	if five < calls/50 || five > calls/10 {
		t.Errorf("%d of %d calls fail, want some 5%%", five, calls)
	}
	if again := failed(trouble{fail: "5%"}); again != five {
		t.Errorf("%d calls fail at the second try, and %d at the first", again, five)
	}
	if n := failed(trouble{fail: "100%"}); n != calls {
		t.Errorf("%d of %d calls fail, want all", n, calls)
	}
	if n := failed(trouble{fail: "0%", rejectKey: true}); n != calls {
		t.Errorf("%d of %d calls are refused for their key, want all", n, calls)
	}
	if n := failed(trouble{fail: "0%", hidden: "100/1h"}); n != calls-100 {
		t.Errorf("%d of %d calls are refused by a hidden limit of 100, want all others", n, calls)
	}
	began := time.Now()
	failed(trouble{fail: "50%", delay: time.Millisecond})
	if took := time.Since(began); took < calls*time.Millisecond {
		t.Errorf("%d calls took %s", calls, took)
	}
	for _, wrong := range []trouble{{fail: "5"}, {fail: "x%"}, {fail: "101%"}, {fail: "-1%"}, {fail: "NaN%"}, {fail: "0%", delay: -1}, {fail: "0%", hidden: "600"}, {fail: "0%", hidden: "0/1m"}, {fail: "0%", hidden: "5/soon"}} {
		if err := wrong.add(&youtubesim.Options{}); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}
