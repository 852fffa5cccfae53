package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func SandboxCommand(a *session.Session) *cobra.Command {
	var listen string
	var units int64
	var seed uint64
	var trouble trouble
	cmd := a.WithOutput(&cobra.Command{
		Use:   "sandbox",
		Short: "Serve a simulated upstream on this machine",
		Long: `Serve a simulated upstream on this machine. It behaves like the YouTube Data API and
enforces its own quota. No request leaves the machine, and no real unit is spent. The
page /__counts shows the counts so far. The sandbox prints them when it ends.

To rehearse a bad day, let calls fail, wait, or be refused for their key. A call that
fails is charged all the same.`,
		Example: `  ingestor sandbox
  ingestor sandbox --listen 127.0.0.1:8092 --quota 100
  ingestor sandbox --fail 5% --delay 2s
  ingestor sandbox --listen 127.0.0.1:0      choose a free port`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if units < 1 {
				return console.Usage("--quota must be 1 or more, not %d", units)
			}
			o := &youtubesim.Options{Seed: seed, Quota: youtubesim.Quota{youtubesim.Default: units}}
			if err := trouble.add(o); err != nil {
				return err
			}
			sim := youtubesim.New(o)
			return serveSandbox(cmd.Context(), a, sim, trouble.slow(sim), listen)
		},
	})
	cmd.Flags().StringVar(&listen, "listen", SandboxListen, "local `address`; port 0 chooses a free one")
	cmd.Flags().Int64Var(&units, "quota", 10000, "`number` of units that it grants in a Pacific day")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`number` from which all data is generated")
	cmd.Flags().StringVar(&trouble.fail, "fail", "0%", "`share` of the calls that end with status 503, such as 5%")
	cmd.Flags().DurationVar(&trouble.delay, "delay", 0, "`time` that each answer takes longer")
	cmd.Flags().BoolVar(&trouble.rejectKey, "reject-key", false, "refuse every key, as if it were deleted")
	return cmd
}

// trouble is what goes wrong in a sandbox.
type trouble struct {
	fail      string
	delay     time.Duration
	rejectKey bool
}

// add adds the faults to those of a simulator. The seed decides which calls fail.
func (t *trouble) add(o *youtubesim.Options) error {
	share, err := strconv.ParseFloat(strings.TrimSuffix(t.fail, "%"), 64)
	if err != nil || share < 0 || share > 100 || !strings.HasSuffix(t.fail, "%") {
		return console.Usage("--fail: %q is not a share; write one from 0%% to 100%%, such as 5%%", t.fail)
	}
	if t.delay < 0 {
		return console.Usage("--delay: write a time such as 2s, not %s", t.delay)
	}
	if share > 0 {
		random := rand.New(rand.NewPCG(o.Seed, 0)) //nolint:gosec // it is to be the same again; the simulator asks one call at a time
		o.Faults = append(o.Faults, youtubesim.Fault{Do: youtubesim.Answer, Match: func(*http.Request) bool { return 100*random.Float64() < share }})
	}
	if t.rejectKey {
		o.Keys = map[string]youtubesim.Key{}
	}
	return nil
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

// countsPath is the path of the counts.
const countsPath = "/__counts"

// sandboxHandler is a simulator, or what is in front of it, and its counts.
func sandboxHandler(sim *youtubesim.Sim, front http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", front)
	mux.HandleFunc(countsPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		//nolint:errchkjson // the client is gone
		_ = json.NewEncoder(w).Encode(countsOf(sim))
	})
	return mux
}

// count is a [youtubesim.Count] in JSON.
type count struct {
	Day     string          `json:"day"`
	Pool    youtubesim.Pool `json:"pool"`
	Method  string          `json:"method"`
	Calls   int64           `json:"calls"`
	Units   int64           `json:"units"`
	Refused int64           `json:"refused"`
}

func countsOf(sim *youtubesim.Sim) []count {
	all := []count{}
	for _, c := range sim.Counts() {
		all = append(all, count{c.Day, c.Pool, c.Method, c.Calls, c.Units, c.Refused})
	}
	return all
}

func serveSandbox(ctx context.Context, a *session.Session, sim *youtubesim.Sim, front http.Handler, address string) error {
	l, err := listenHere(address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: sandboxHandler(sim, front), ReadHeaderTimeout: 10 * time.Second}
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
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(a.Abort, 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return showCounts(a, sim)
}

// showCounts writes the counts of the simulator.
func showCounts(a *session.Session, sim *youtubesim.Sim) error {
	all := countsOf(sim)
	return a.Print(all, func(s *console.Sheet) {
		if len(all) == 0 {
			s.Line("no calls were made")
			return
		}
		var rows [][]string
		for _, c := range all {
			rows = append(rows, []string{c.Day, c.Method, view.Number(c.Calls), view.Number(c.Units), view.Number(c.Refused)})
		}
		s.Table(console.Columns("pacific day", "method", ">calls", ">units", ">refused"), rows)
	})
}
