package meter_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// A process begins with what calls have cost the others, and adds what its own have cost.
func TestProcessesShareWhatCallsCost(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"usage": 5000}`) }, nil)
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  model:
    hosts: [api.example.com]
    pools: {tokens: {quota: 100000000, windows: [{per: 1m}]}}
    methods:
      ask:
        route: POST /ask
        pool: tokens
        cost: {estimate: {learn: p95, first: 100}, actual: {body: usage}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(&memstore.Options{Clock: r.clock})
	process := func() (reserved func() int64, flush func()) {
		var seen []int64
		l, err := quota.New(b, store, &quota.Options{Clock: r.clock, Observer: quota.ObserverFunc(func(e quota.Event) {
			if e.Kind == quota.EventGranted {
				seen = append(seen, e.Verdict.Units)
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		m, err := meter.New(l, &meter.Options{Base: r.base})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: m}
		flush = func() {
			if err := m.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return func() int64 {
			resp, err := client.Post("https://api.example.com/ask", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return seen[len(seen)-1]
		}, flush
	}
	ask, flush := process()
	if n := ask(); n != 100 {
		t.Errorf("the first call reserves %d, want its first of 100", n)
	}
	for deadline := time.Now().Add(time.Minute); ; ask() { // a process tells the others while it runs
		if early, _ := process(); early() != 100 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no process knows what the calls of another one have cost, before that has ended")
		}
	}
	for range 30 {
		ask()
	}
	flush()
	other, flushOther := process()
	if n := other(); n < 5000 || n > 5500 {
		t.Errorf("the first call of another process reserves %d, want about 5,000", n)
	}
	for range 5 {
		other()
	}
	flushOther()
	last, _ := process()
	if n := last(); n < 5000 || n > 5500 {
		t.Errorf("the first call of a third process reserves %d, want about 5,000", n)
	}
}
