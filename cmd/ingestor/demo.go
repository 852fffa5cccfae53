package main

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

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/internal/youtubesim"
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

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work: no key, no server, no configuration",
		Long: `Fetch the charts of eight regions from a simulated upstream on this machine. The quota
is too small for all of them, so the first run stops cleanly. The clock then moves to the
time at which the ledger said work can resume, and a second run finishes. Only the
upstream and the clock are simulated. The rest is what ingestor run --once --due does.`,
		Example: `  ingestor demo`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.demo(cmd.Context())
		},
	}
}

// demo makes two runs, a day apart.
func (a *app) demo(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "ingestor-demo-")
	if err != nil {
		return err
	}
	clock := quota.NewSimClock(demoStart)
	sim := youtubesim.New(&youtubesim.Options{Seed: 1, Clock: clock.Now, Quota: youtubesim.Quota{youtubesim.Default: demoQuota}})
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	address, err := serveDemo(sim, a.pace(), &done)
	if err != nil {
		return err
	}
	s, err := demoSettings(dir, address)
	if err != nil {
		return err
	}
	a.clock, a.loaded, a.log = clock, s, slog.New(slog.DiscardHandler)
	a.say("Eight regions, four pages each: 32 units. The quota is %d a day, of which %d stay free.", demoQuota, demoHeadroom)
	a.say("Everything is in %s, and stays there; delete it when you like.", dir)
	shown := &relay{}
	w, err := a.openWorks(ctx, s, &done, shown.tell)
	if err != nil {
		return err
	}
	if err := a.demoRuns(ctx, w, shown, clock); err != nil {
		return err
	}
	if err := a.demoSpend(ctx, w, sim); err != nil {
		return err
	}
	a.title("To try next")
	_, err = fmt.Fprintf(a.stdout, `  %[1]s trending US --catalog %[2]s
  %[1]s search concert --catalog %[2]s
  %[1]s init
`, self(), shell.Quote(s.Catalog))
	return err
}

// demoRuns makes runs until all work is done. The second run starts at the time that the
// ledger named.
func (a *app) demoRuns(ctx context.Context, w *works, shown *relay, clock *quota.SimClock) error {
	for n := 1; ; n++ {
		a.title(fmt.Sprintf("Run %d, at %s", n, stamp(clock.Now())))
		watched := a.watch()
		shown.display = watched.tell
		all := a.once(ctx, w, w.settings.List(), &runFlags{once: true, due: true})
		watched.close()
		if err := a.show(all); err != nil {
			return err
		}
		code, at, why := exitDone, time.Time{}, ""
		for _, r := range all {
			if r.code != exitDone {
				code, at, why = r.code, r.NextAt, r.Error
			}
		}
		switch {
		case ctx.Err() != nil:
			return &exit{code: exitDeferred}
		case code == exitDone:
			return nil
		case code != exitDeferred || n > 3:
			return &exit{code, fmt.Errorf("the demo did not end as it should: %s", why)}
		}
		fmt.Fprintln(a.stdout)
		a.say("The ledger said no before the upstream had to:")
		a.say("  %s", why)
		a.say("The fetched data is kept, and how far each region got. The clock moves to %s.", stamp(at))
		clock.Set(at)
	}
}

// demoSpend shows the spend as the ledger counts it, and as the upstream does.
func (a *app) demoSpend(ctx context.Context, w *works, sim *youtubesim.Sim) error {
	spent, err := w.ledger.Spend(ctx, quota.SpendQuery{}, quota.ByDay, quota.ByJob, quota.ByRegion)
	if err != nil {
		return err
	}
	a.title("Spent, says the ledger")
	if err := a.print(nil, func(s *sheet) {
		var rows [][]string
		for _, one := range spent {
			rows = append(rows, []string{one.Day, one.Pool.Name, one.Labels.Job, one.Labels.Region, view.Number(one.Units)})
		}
		s.table([]column{{name: "pacific day"}, {name: "pool"}, {name: "job"}, {name: "region"}, {name: "units", right: true}}, rows)
	}); err != nil {
		return err
	}
	a.title("Spent, says the upstream")
	if err := a.showCounts(sim); err != nil {
		return err
	}
	a.say("refused: %d", sim.Counts().Total().Refused)
	return nil
}

// demoSettings returns the settings of the demo. They ignore the environment: the
// simulated clock must never reach a real ledger.
func demoSettings(dir, address string) (*settings, error) {
	costs := filepath.Join(dir, "costs.yaml")
	if err := os.WriteFile(costs, []byte(demoCosts), 0o600); err != nil {
		return nil, err
	}
	s := defaultSettings(dir)
	s.Costs, s.Endpoint, s.key = costs, "http://"+address, meter.Key("a-key-of-the-demo")
	s.MaxWait = 0 // the clock does not move by itself
	s.Jobs = map[string]ingest.Job{
		"trending":  {Kind: ingest.Trending, Cron: "@weekly"},
		"retention": {Kind: ingest.Retention, Cron: "@daily", Disabled: true},
	}
	s.Workers = 1 // the order of calls is the same each time
	return s, s.check()
}

// serveDemo serves the simulator on a port of this machine.
func serveDemo(sim http.Handler, pace time.Duration, done *closers) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pace) // a real upstream takes time, too
		sim.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // returns when the server is closed
	done.add(server.Close)
	return l.Addr().String(), nil
}

// pace returns how long the simulated upstream takes to answer. On a terminal that is long
// enough to watch.
func (a *app) pace() time.Duration {
	if isTerminal(a.stderr) {
		return 120 * time.Millisecond
	}
	return 0
}

// relay forwards progress to the present display.
type relay struct{ display func(ingest.Progress) }

func (r *relay) tell(p ingest.Progress) { r.display(p) }

// title prints the title of a section.
func (a *app) title(text string) {
	s := newSheet(a.stdout)
	fmt.Fprintf(a.stdout, "\n%s\n", s.in(bold, text))
}

// say prints a sentence, wrapped at the width of the terminal.
func (a *app) say(format string, args ...any) {
	s := newSheet(a.stdout)
	s.line(format, args...)
	fmt.Fprint(a.stdout, s.text.String())
}
