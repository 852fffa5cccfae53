package meter_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// A real Redis that hangs when answers end is told what they have cost when it goes on.
func TestRedisHangsWhenAnAnswerEnds(t *testing.T) {
	redis, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Kill)
	store, err := redisstore.Open("redis://"+redis.Addr+"/0", &redisstore.Options{Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := redis.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	var hang atomic.Bool
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		if hang.Load() {
			signal(syscall.SIGSTOP)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"used":{"in":30,"cached":10,"out":7}}`)
	}, nil)
	b := mustBook(t, strings.NewReplacer("MODE", "enforce", "DEFAULT", "refuse").Replace(billPrices))
	if r.ledger, err = quota.New(b, store, nil); err != nil {
		t.Fatal(err)
	}
	var log lines
	r.meter(&meter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	hang.Store(true)
	if _, _, err := r.do(t.Context(), "POST", "http://model.example.com/ask", `{"model":"big","max":50}`); err != nil {
		t.Fatal(err)
	}
	if err := r.transport().Flush(t.Context()); !errors.Is(err, quota.ErrOutage) {
		t.Errorf("while it hangs: %v", err)
	}
	signal(syscall.SIGCONT)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "settled late"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not settled:\n%s", log.String())
		}
	}
	r.billed("after it", 2000+100+7000)
	if !strings.Contains(log.String(), "ingestor quota adjust budgets/all '-") {
		t.Errorf("the log has no remedy:\n%s", log.String())
	}
}
