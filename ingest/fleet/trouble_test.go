package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// TestOnceLosesItsDatabase: a run without a daemon ends after a while, and at once when it is told
// to stop.
func TestOnceLosesItsDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Fast...)
	type try struct {
		r       *rig
		f       *fleet.Fleet
		ctx     context.Context
		silence time.Duration
		want    error
		failed  chan error
	}
	stopped, stop := context.WithCancel(t.Context())
	defer stop()
	open := make(chan struct{})
	var tries []*try
	for _, is := range []*try{{ctx: t.Context(), silence: time.Second, want: fleet.ErrDatabase}, {ctx: stopped, silence: time.Hour, want: ingest.ErrInterrupted}} {
		is.r, is.failed = newRig(t, 100, oneChart()), make(chan error, 1)
		is.r.url = server.Database(t)
		is.f = is.r.fleet(is.r.catalog(), fleet.Options{Grace: time.Second, Timing: fleet.Timing{Silence: is.silence}})
		arrived := make(chan struct{})
		is.r.slow = func() { close(arrived); <-open }
		go func() {
			_, err := is.f.Once(is.ctx, is.r.job("charts"), ingest.Occasion{})
			is.failed <- err
		}()
		<-arrived
		tries = append(tries, is)
	}
	server.Crash()
	close(open)
	if err := <-tries[0].failed; !errors.Is(err, fleet.ErrDatabase) {
		t.Errorf("without a database: %v", err)
	}
	stop()
	if err := <-tries[1].failed; !errors.Is(err, ingest.ErrInterrupted) {
		t.Errorf("told to stop: %v", err)
	}
	tries[0].r.must(server.Restart()) // closing needs it
}

// TestRiverIsTerse: River reports the same trouble from many places.
func TestRiverIsTerse(t *testing.T) {
	var said bytes.Buffer
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	log := fleet.QuietLog(slog.NewTextHandler(&said, nil), clock).With("a", 1).WithGroup("g")
	for range 90 {
		log.Info("daily work")
		log.Error("producer: Error fetching queue settings", "err", "refused")
		clock.Advance(time.Second)
	}
	if got := said.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "trouble with its database") != 2 || !strings.Contains(got, "refused") {
		t.Errorf("it said:\n%s", got)
	}
}
