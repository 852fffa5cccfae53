package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// The demo fetches four pages of each of eight regions, 32 units. A limit of 18 is reached
// in the fifth region. The simulated upstream enforces the whole quota.
const (
	demoQuota    = 20
	demoHeadroom = 2
)

// demoStart is in the middle of a day in California, where the upstream's day begins.
var demoStart = time.Date(2026, time.November, 20, 20, 0, 0, 0, time.UTC)

var demoCosts = fmt.Sprintf(`# The price book of the demo: the built-in one, with a quota that is soon used up.
extends: builtin
revision: 2
upstreams: {youtube: {pools: {units: {quota: %d, headroom: %d}}}}
`, demoQuota, demoHeadroom)

func DemoCommand(a *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work: no key, no server, no configuration",
		Long: `Fetch the charts of eight regions from a simulated upstream on this machine. The quota
is too small for all of them, so the first run stops cleanly. The clock then moves to the
time at which the ledger said work can resume, and a second run finishes. Only the
upstream and the clock are simulated. The rest is what ingestor run --once --due does.`,
		Example: `  ingestor demo`,
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), a)
		},
	}
}

// demo makes two runs, a day apart.
func demo(ctx context.Context, a *session.Session) (err error) {
	dir, err := os.MkdirTemp("", "ingestor-demo-")
	if err != nil {
		return err
	}
	clock := quota.NewSimClock(demoStart)
	sim := youtubesim.New(&youtubesim.Options{Seed: 1, Clock: clock.Now, Quota: youtubesim.Quota{youtubesim.Default: demoQuota}})
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	address, err := serveDemo(sim, pace(a), &done)
	if err != nil {
		return err
	}
	s, err := demoSettings(dir, address)
	if err != nil {
		return err
	}
	a.Clock, a.Loaded, a.Log = clock, s, slog.New(slog.DiscardHandler)
	say(a, "Eight regions, four pages each: 32 units. The quota is %d a day, of which %d stay free.", demoQuota, demoHeadroom)
	say(a, "Everything is in %s, and stays there; delete it when you like.", dir)
	shown := &relay{}
	w, err := openWorks(ctx, a, s, &done, shown.tell)
	if err != nil {
		return err
	}
	if err := demoRuns(ctx, a, w, shown, clock); err != nil {
		return err
	}
	if err := demoSpend(ctx, a, w, sim); err != nil {
		return err
	}
	title(a, "To try next")
	_, err = fmt.Fprintf(a.Stdout, `  %[1]s trending US --catalog %[2]s
  %[1]s search concert --catalog %[2]s
  %[1]s init
`, console.Self(), shell.Quote(s.Catalog))
	return err
}

// demoRuns makes runs until all work is done. The second run starts at the time that the
// ledger named.
func demoRuns(ctx context.Context, a *session.Session, w *works, shown *relay, clock *quota.SimClock) error {
	for n := 1; ; n++ {
		title(a, fmt.Sprintf("Run %d, at %s", n, console.Stamp(clock.Now())))
		watched := watch(a)
		shown.display = watched.tell
		all := runOnce(ctx, a, w, w.settings.List(), &runFlags{once: true, due: true})
		watched.close()
		if err := showRuns(a, all); err != nil {
			return err
		}
		code, at, why := console.ExitDone, time.Time{}, ""
		for _, r := range all {
			if r.code != console.ExitDone {
				code, at, why = r.code, r.NextAt, r.Error
			}
		}
		switch {
		case ctx.Err() != nil:
			return &console.Exit{Code: console.ExitDeferred}
		case code == console.ExitDone:
			return nil
		case code != console.ExitDeferred || n > 3:
			return &console.Exit{Code: code, Err: fmt.Errorf("the demo did not end as it should: %s", why)}
		}
		fmt.Fprintln(a.Stdout)
		say(a, "The ledger said no before the upstream had to:")
		say(a, "  %s", why)
		say(a, "The fetched data is kept, and how far each region got. The clock moves to %s.", console.Stamp(at))
		clock.Set(at)
	}
}

// demoSpend shows the spend as the ledger counts it, and as the upstream does.
func demoSpend(ctx context.Context, a *session.Session, w *works, sim *youtubesim.Sim) error {
	spent, err := w.ledger.View().Spend(ctx, quota.SpendQuery{}, quota.ByDay, quota.ByJob, quota.ByRegion)
	if err != nil {
		return err
	}
	title(a, "Spent, says the ledger")
	if err := a.Print(nil, func(s *console.Sheet) {
		var rows [][]string
		for _, one := range spent {
			rows = append(rows, []string{one.Day, one.Pool.Name, one.Labels.Job, one.Labels.Region, view.Number(one.Units)})
		}
		s.Table(console.Columns("pacific day", "pool", "job", "region", ">units"), rows)
	}); err != nil {
		return err
	}
	title(a, "Spent, says the upstream")
	if err := showCounts(a, sim); err != nil {
		return err
	}
	say(a, "refused: %d", sim.Counts().Total().Refused)
	return nil
}

// demoSettings returns the settings of the demo. They ignore the environment: the
// simulated clock must never reach a real ledger.
func demoSettings(dir, address string) (*settings.Settings, error) {
	costs := filepath.Join(dir, "costs.yaml")
	if err := os.WriteFile(costs, []byte(demoCosts), 0o600); err != nil {
		return nil, err
	}
	s := settings.DefaultSettings(dir)
	s.Costs, s.Endpoint, s.Key = costs, "http://"+address, meter.Key("a-key-of-the-demo")
	s.MaxWait = 0 // the clock does not move by itself
	s.Jobs = map[string]ingest.Job{
		"trending":  {Kind: ingest.Trending, Cron: "@weekly"},
		"retention": {Kind: ingest.Retention, Cron: "@daily", Disabled: true},
	}
	s.Workers = 1 // the order of calls is the same each time
	return s, s.Check()
}

// serveDemo serves the simulator on a port of this machine.
func serveDemo(sim http.Handler, pace time.Duration, done *console.Closers) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pace) // a real upstream takes time, too
		sim.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // returns when the server is closed
	done.Add(server.Close)
	return l.Addr().String(), nil
}

// pace returns how long the simulated upstream takes to answer. On a terminal that is long
// enough to watch.
func pace(a *session.Session) time.Duration {
	if console.IsTerminal(a.Stderr) {
		return 120 * time.Millisecond
	}
	return 0
}

// relay forwards progress to the present display.
type relay struct{ display func(ingest.Progress) }

func (r *relay) tell(p ingest.Progress) { r.display(p) }

// title prints the title of a section.
func title(a *session.Session, text string) {
	s := console.NewSheet(a.Stdout)
	fmt.Fprintf(a.Stdout, "\n%s\n", s.In(console.Bold, text))
}

// say prints a sentence, wrapped at the width of the terminal.
func say(a *session.Session, format string, args ...any) {
	s := console.NewSheet(a.Stdout)
	s.Line(format, args...)
	fmt.Fprint(a.Stdout, s.Text.String())
}
