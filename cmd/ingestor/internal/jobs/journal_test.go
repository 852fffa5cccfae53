package jobs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Systemd and containers put both outputs into one stream. A run is a line of the log there, not a table.
func TestTheJournalHasLinesOnly(t *testing.T) {
	var out, log bytes.Buffer
	a := &session.Session{Stdout: &out, Log: slog.New(slog.NewJSONHandler(&log, nil))}
	r := &RunView{Job: "trending", State: catalog.Done, StartedAt: time.Unix(1, 0), Units: 4, Regions: []regionView{{Region: "US", Pages: 2, New: 3}, {Region: "DE", Pages: 2}}}
	if err := tellRun(a, r); err != nil || out.Len() > 0 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), `"job":"trending","state":"done","regions":2,"pages":4,"new":3`) {
		t.Errorf("it wrote %q and logged %q: %v", &out, &log, err)
	}
	log.Reset()
	if err := tellRun(a, &RunView{Job: "trending", State: catalog.Failed, Error: "the disk is full"}); err != nil || log.Len() > 0 {
		t.Errorf("of a run that was not made it logged %q: %v", &log, err) // "no run" says so
	}
	shown, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(shown.Close(), terminal.Close()) }()
	a.Stdout = terminal
	if err := tellRun(a, r); err != nil || log.Len() > 0 {
		t.Errorf("on a terminal it logged %q: %v", &log, err)
	}
}
