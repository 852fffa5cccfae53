package sdktest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/server"
)

// callModel is a process of 64 callers in compressed time.
func callModel(path string, begin func() bool, _ io.Writer) error {
	addr, clock := os.Getenv(addrOfServer), scaledClock()
	return childCalls(path, begin, 64, clock, func(ctx context.Context, p *process, r *rand.Rand) error {
		_, err := newModel(server.OpenAI, p.client, addr).ask(ctx, short(r))
		return err
	})
}

// processes has two real processes and a server on loopback, in compressed time. The
// scheduler's delays grow with the time, so late is generous, and more so on a machine that others
// use, too.
func processes(t *testing.T, figures *table) {
	clock := server.Scaled{Start: time.Now(), Speed: pick(15, 6)}
	span := pick(2*time.Minute, 10*time.Minute)
	o := llmServer(server.OpenAI, server.Sliding)
	o.Clock = clock
	s := server.NewLLM(o)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	addr := web.Listener.Addr().String()
	path := filepath.Join(t.TempDir(), "ledger.db")
	text := llmBook(server.OpenAI, "WINDOW", "{per: 1m, late: "+pick("30s", "3s")+"}")
	var children []*childtest.Child
	for range 2 {
		children = append(children, childtest.Run(t, "models", path, addrOfServer+"="+addr, textOfBook+"="+text,
			fmt.Sprintf("%s=%d", startOfClock, clock.Start.UnixNano()), fmt.Sprintf("%s=%d", speedOfClock, clock.Speed)))
	}
	beginAll(t, children)
	_ = clock.Sleep(t.Context(), span)
	granted := s.Counts().Charged["tokens"]
	for _, c := range children {
		c.Begin()
	}
	for _, c := range children {
		c.Rest()
	}
	c := s.Counts()
	const name = "two real processes, compressed time"
	figures.zero(t, name+": refusals", int64(c.Refused))
	figures.pace(t, name+": share of the oracle", float64(granted)/float64(o.Tokens.Oracle(span)), 0.93)
	p := newProcess(t, parse(t, text, addr), path, clock, nil)
	ours, _ := p.spent(t, "llm")
	// a call that its caller gave up while it was in flight is charged by its estimate
	figures.least(t, name+": ledger by server, at least", float64(ours["tokens"])/float64(c.Charged["tokens"]), 1)
	figures.most(t, name+": ledger by server, at most", float64(ours["tokens"])/float64(c.Charged["tokens"]), 1.05)
}
