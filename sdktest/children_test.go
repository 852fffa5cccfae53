package sdktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/server"
	"github.com/headroom-quota/headroom/quota"
)

// The environment of a child.
const (
	addrOfServer = "HEADROOM_TEST_ADDR"
	textOfBook   = "HEADROOM_TEST_BOOK"
	startOfClock = "HEADROOM_TEST_START" // nanoseconds since 1970
	speedOfClock = "HEADROOM_TEST_SPEED"
)

// scaledClock returns the clock that a child shares with its parent.
func scaledClock() server.Scaled {
	start, _ := strconv.ParseInt(os.Getenv(startOfClock), 10, 64)
	speed, _ := strconv.Atoi(os.Getenv(speedOfClock))
	return server.Scaled{Start: time.Unix(0, start), Speed: speed}
}

// childCalls lets callers of a child call from the first word of the parent to its
// second. A call that is in flight then ends, but none that waits.
func childCalls(path string, begin func() bool, callers int, clock quota.Clock, call func(ctx context.Context, p *process, r *rand.Rand) error) error {
	b, err := parseFor(os.Getenv(textOfBook), os.Getenv(addrOfServer))
	if err != nil {
		return err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = callers
	p, stop, err := openProcess(b, path, clock, base)
	if err != nil {
		return err
	}
	if !begin() {
		return stop()
	}
	ctx, over := context.WithCancel(context.Background())
	defer over()
	var wg sync.WaitGroup
	failed := make(chan error, callers)
	for i := range callers {
		r := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := call(ctx, p, r); err != nil && ctx.Err() == nil {
					failed <- err
					return
				}
			}
		})
	}
	begin()
	over()
	wg.Wait()
	select {
	case err := <-failed:
		return fmt.Errorf("of %d failures: %w", 1+len(failed), err)
	default:
	}
	time.Sleep(time.Second) // for settlements that the caller need not wait for
	return stop()
}

// beginAll lets children begin together.
func beginAll(t *testing.T, children []*childtest.Child) {
	t.Helper()
	for _, c := range children {
		if line := c.Line(); line != "ready" {
			t.Fatalf("a child says %q", line)
		}
	}
	for _, c := range children {
		c.Begin()
	}
}
