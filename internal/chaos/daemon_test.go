//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// settings are those of a daemon. Its children read them from a file.
type settings struct {
	Database string        `json:"database"`
	Ledger   string        `json:"ledger"`
	Upstream string        `json:"upstream"` // host and port
	Costs    string        `json:"costs"`
	State    string        `json:"state"` // a folder
	Conns    int           `json:"conns"`
	Fleet    fleet.Timing  `json:"fleet"`
	Grace    time.Duration `json:"grace"`
	Config   ingest.Config `json:"config"`
}

// daemon is the task of a child: a daemon of a fleet, wired as the program wires it, with
// shorter times. It ends with its parent.
func daemon(path string, begin func() bool, _ io.Writer) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s settings
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	go func() {
		for begin() {
		}
		os.Exit(1) // the parent is gone
	}()
	return s.run(ctx)
}

func (s *settings) run(ctx context.Context) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, fault := range s.Config.Prepare() {
		return fault
	}
	costs, err := headroom.Load(s.Costs)
	if err != nil {
		return err
	}
	opened, err := open.Open(ctx, s.Ledger, &open.Options{Book: costs, State: s.State, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	c, err := pgcatalog.Open(ctx, s.Database, &pgcatalog.Options{Conns: s.Conns})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := fleet.Migrate(ctx, c); err != nil {
		return err
	}
	clock, err := fleet.NewClock(ctx, c)
	if err != nil {
		return err
	}
	transport, err := meter.New(opened.Ledger, &meter.Options{
		Base: to{s.Upstream}, Keys: map[string]meter.KeySource{"youtube": meter.Key("AIza-not-a-key")}, Logger: log,
	})
	if err != nil {
		return err
	}
	client, err := youtube.New(&http.Client{Transport: transport}, nil)
	if err != nil {
		return err
	}
	runner := ingest.NewRunner(&s.Config, opened.Ledger, c, client, opened, &ingest.Options{Clock: clock, Log: log})
	f, err := fleet.New(c, clock, runner, s.Config.List(), &fleet.Options{
		Log: log, Workers: s.Config.Workers, CallTimeout: s.Config.CallTimeout, Grace: s.Grace, Timing: s.Fleet,
	})
	if err != nil {
		return err
	}
	log.Info("this is daemon", "id", f.ID(), "pid", os.Getpid())
	err = f.Work(ctx)
	log.Info("the daemon ends", "error", err)
	return err
}

// to sends what is meant for the upstream to another address.
type to struct{ address string }

// RoundTrip implements [http.RoundTripper].
func (t to) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "http", t.address, t.address
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		err = fmt.Errorf("the upstream: %w", err)
	}
	return res, err
}
