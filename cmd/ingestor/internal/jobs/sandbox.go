package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

func SandboxCommand(a *session.Session) *cobra.Command {
	var listen string
	var units int64
	var seed uint64
	var trouble trouble
	cmd := a.Command("sandbox", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if units < 1 {
			return console.Usage("--quota must be 1 or more, not %d", units)
		}
		o := &youtubesim.Options{Seed: seed, Quota: youtubesim.Quota{youtubesim.Default: units}}
		if err := trouble.add(o); err != nil {
			return err
		}
		sim := youtubesim.New(o)
		if trouble.hidden != "" {
			fmt.Fprint(a.Stdout, hiddenCosts)
		}
		l, err := listenHere(listen)
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("/", trouble.slow(sim))
		mux.HandleFunc(countsPath, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			//nolint:errchkjson // the client is gone
			_ = json.NewEncoder(w).Encode(append(youtubesim.Counts{}, sim.Counts()...))
		})
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
		fmt.Fprintf(a.Stdout, `# A simulated upstream. To use it, put this into ingestor.yaml:
endpoint: http://%[1]s

# Or try it at once:
#   YOUTUBE_API_KEY=any INGESTOR_ENDPOINT=http://%[1]s %[3]s run --once --ledger memory: --catalog ./sandbox.db
# Counts so far: http://%[1]s%[2]s. To stop it, press Ctrl-C.
`, l.Addr(), countsPath, console.Self())
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		select {
		case err := <-ended:
			return &console.Exit{Code: console.ExitDown, Err: err}
		case <-cmd.Context().Done():
		}
		grace, cancel := context.WithTimeout(a.Abort, 5*time.Second)
		defer cancel()
		if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return showCounts(a, sim)
	})
	cmd.Flags().StringVar(&listen, "listen", SandboxListen, "local `address`; port 0 chooses a free one")
	cmd.Flags().Int64Var(&units, "quota", 10000, "`number` of units that it grants in a Pacific day")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`number` from which all data is generated")
	cmd.Flags().StringVar(&trouble.fail, "fail", "0%", "`share` of the calls that end with status 503, such as 5%")
	cmd.Flags().DurationVar(&trouble.delay, "delay", 0, "`time` that each answer takes longer")
	cmd.Flags().StringVar(&trouble.hidden, "hidden-limit", "", "`limit` that no answer names, such as 600/1m: calls in any such time")
	cmd.Flags().BoolVar(&trouble.rejectKey, "reject-key", false, "refuse every key, as if it were deleted")
	return cmd
}

// hiddenCosts is a price book that learns the hidden limit.
const hiddenCosts = `# A price book that learns the hidden limit. Put it into learn.yaml, and use it with --costs learn.yaml.
# extends: builtin
# revision: 100
# upstreams:
#   youtube:
#     pools:
#       units:
#         headroom: null
#         quota: {learn: {from: 5}}
#         windows: [{per: day, zone: America/Los_Angeles, quota: 10000}]

`

// trouble is what goes wrong in a sandbox.
type trouble struct {
	fail      string
	delay     time.Duration
	rejectKey bool
	hidden    string
}

// add adds the faults to those of a simulator. The seed decides which calls fail.
func (t *trouble) add(o *youtubesim.Options) error {
	share, err := strconv.ParseFloat(strings.TrimSuffix(t.fail, "%"), 64)
	if err != nil || math.IsNaN(share) || share < 0 || share > 100 || !strings.HasSuffix(t.fail, "%") {
		return console.Usage("--fail: %q is not a share; write one from 0%% to 100%%, such as 5%%", t.fail)
	}
	if t.delay < 0 {
		return console.Usage("--delay: write a time such as 2s, not %s", t.delay)
	}
	if share > 0 {
		random := rand.New(rand.NewPCG(o.Seed, 0)) //nolint:gosec // it is to be the same again; the simulator asks one call at a time
		o.Faults = append(o.Faults, youtubesim.Fault{Do: youtubesim.Answer, Match: func(*http.Request) bool { return 100*random.Float64() < share }})
	}
	if t.hidden != "" {
		limit, per, _ := strings.Cut(t.hidden, "/")
		most, err := strconv.Atoi(limit)
		window, failed := time.ParseDuration(per)
		if err != nil || failed != nil || most < 1 || most > 1_000_000 || window <= 0 {
			return console.Usage("--hidden-limit: %q is not a limit; write the calls and the time, such as 600/1m", t.hidden)
		}
		o.Faults = append(o.Faults, youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.PerMinute, Match: hiddenLimit(most, window)})
	}
	if t.rejectKey {
		o.Keys = map[string]youtubesim.Key{}
	}
	return nil
}

// hiddenLimit matches the calls beyond a limit. The simulator asks one call at a time.
func hiddenLimit(most int, window time.Duration) func(*http.Request) bool {
	passed, next := make([]time.Time, most), 0 // the last calls that passed, the oldest at next
	return func(*http.Request) bool {
		now := quota.SystemClock{}.Now()
		if now.Sub(passed[next]) < window {
			return true
		}
		passed[next], next = now, (next+1)%most
		return false
	}
}

// slow answers later, also what fails.
func (t *trouble) slow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait := time.NewTimer(t.delay)
		defer wait.Stop()
		select {
		case <-wait.C:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// SandboxListen differs from the addresses of ingestor serve and proxy, so that all can run.
const SandboxListen = "127.0.0.1:8091"

// listenHere listens on the loopback interface.
func listenHere(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, console.Usage("--listen: %q is not an address; write it as 127.0.0.1:8091", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, console.Usage("--listen: %q can be reached from other machines; write 127.0.0.1:PORT", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, console.CannotListen(err, "ingestor sandbox --listen 127.0.0.1:0")
	}
	return l, nil
}

const countsPath = "/__counts"

func showCounts(a *session.Session, sim *youtubesim.Sim) error {
	all := append(youtubesim.Counts{}, sim.Counts()...)
	return a.Print(all, func(s *console.Sheet) {
		if len(all) == 0 {
			s.Line("no call had a known method")
			return
		}
		console.List(s, console.Columns("pacific day", "method", ">calls", ">units", ">refused", ">failed", ">bad key"), all, func(c *youtubesim.Count) []string {
			return []string{c.Day, c.Method, view.Number(c.Calls), view.Number(c.Units), view.Number(c.Refused), amountOrBlank("", c.Failed), amountOrBlank("", c.BadKey)}
		})
	})
}

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

// DemoCommand makes two runs, a day apart.
func DemoCommand(a *session.Session) *cobra.Command {
	return console.Command("demo", console.NoArgs, func(cmd *cobra.Command, _ []string) (err error) {
		ctx := cmd.Context()
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
		var display func(ingest.Progress) // the present one
		w, err := openWorks(ctx, a, s, &done, func(p ingest.Progress) { display(p) })
		if err != nil {
			return err
		}
		if err := demoRuns(ctx, a, w, &display, clock); err != nil {
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
	})
}

// demoRuns makes runs until all work is done. The second run starts at the time that the
// ledger named.
func demoRuns(ctx context.Context, a *session.Session, w *works, display *func(ingest.Progress), clock *quota.SimClock) error {
	for n := 1; ; n++ {
		title(a, fmt.Sprintf("Run %d, at %s", n, console.Stamp(clock.Now())))
		var all []*RunView
		_ = watching(a, func(tell func(ingest.Progress)) error { // the runs have the errors
			*display = tell
			all = runOnce(ctx, a, w, w.settings.List(), &runFlags{once: true, due: true})
			return nil
		})
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
		console.List(s, console.Columns("pacific day", "pool", "job", "region", ">units"), spent, func(one *quota.Spent) []string {
			return []string{one.Day, one.Pool.Name, one.Labels.Job, one.Labels.Region, view.Number(one.Units)}
		})
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
