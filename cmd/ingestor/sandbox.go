package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/internal/youtubesim"
)

func (a *app) sandboxCommand() *cobra.Command {
	var listen string
	var units int64
	var seed uint64
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Serve a simulated upstream on this machine",
		Long: `Serve a simulated upstream on this machine. It behaves like the YouTube Data API and
enforces its own quota. No request leaves the machine, and no real unit is spent. The
page /__counts shows the counts so far. The sandbox prints them when it ends.`,
		Example: `  ingestor sandbox
  ingestor sandbox --listen 127.0.0.1:8092 --quota 100
  ingestor sandbox --listen 127.0.0.1:0      choose a free port`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if units < 1 {
				return usage("--quota must be 1 or more, not %d", units)
			}
			sim := youtubesim.New(&youtubesim.Options{Seed: seed, Quota: youtubesim.Quota{youtubesim.Default: units}})
			return a.serveSandbox(cmd.Context(), sim, listen)
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&listen, "listen", sandboxListen, "local `address`; port 0 chooses a free one")
	cmd.Flags().Int64Var(&units, "quota", 10000, "`number` of units that it grants in a Pacific day")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`number` from which all data is generated")
	return cmd
}

// sandboxListen differs from the addresses of ingestor serve and proxy, so that all can run.
const sandboxListen = "127.0.0.1:8091"

// listenHere listens on the loopback interface.
func listenHere(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usage("--listen: %q is not an address; write it as 127.0.0.1:8091", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usage("--listen: %q can be reached from other machines; write 127.0.0.1:PORT", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, cannotListen(err, "ingestor sandbox --listen 127.0.0.1:0")
	}
	return l, nil
}

// countsPath is the path of the counts.
const countsPath = "/__counts"

// sandboxHandler is the simulator and its counts.
func sandboxHandler(sim *youtubesim.Sim) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sim)
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

func (a *app) serveSandbox(ctx context.Context, sim *youtubesim.Sim, address string) error {
	l, err := listenHere(address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: sandboxHandler(sim), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(a.stdout, `# A simulated upstream, which accepts any key. To use it, put this into ingestor.yaml:
endpoint: http://%[1]s

# Or try it at once:
#   YOUTUBE_API_KEY=any INGESTOR_ENDPOINT=http://%[1]s %[3]s run --once --ledger memory: --catalog ./sandbox.db
# Counts so far: http://%[1]s%[2]s. To stop it, press Ctrl-C.
`, l.Addr(), countsPath, self())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return &exit{exitDown, err}
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(a.abort, 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return a.showCounts(sim)
}

// showCounts writes the counts of the simulator.
func (a *app) showCounts(sim *youtubesim.Sim) error {
	all := countsOf(sim)
	return a.print(all, func(s *sheet) {
		if len(all) == 0 {
			s.line("no calls were made")
			return
		}
		var rows [][]string
		for _, c := range all {
			rows = append(rows, []string{c.Day, c.Method, view.Number(c.Calls), view.Number(c.Units), view.Number(c.Refused)})
		}
		s.table([]column{{name: "pacific day"}, {name: "method"}, {name: "calls", right: true}, {name: "units", right: true}, {name: "refused", right: true}}, rows)
	})
}
