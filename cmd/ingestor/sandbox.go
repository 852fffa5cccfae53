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

	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/internal/youtubesim"
)

func (a *app) sandboxCommand() *cobra.Command {
	var listen string
	var units int64
	var seed uint64
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Serve a simulated upstream on this machine, to try things on",
		Long: `Serves an upstream that behaves like the YouTube Data API and enforces a quota of
its own, on a port of this machine. Nothing leaves the machine and nothing is spent.
What it has counted stands at /__counts, and is printed when it ends.`,
		Example: `  ingestor sandbox
  ingestor sandbox --listen 127.0.0.1:8080 --quota 100`,
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
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`address` of this machine; port 0 is any that is free")
	cmd.Flags().Int64Var(&units, "quota", 10000, "units that it grants per Pacific day")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "decides all data")
	return cmd
}

// listenHere listens on a port that only this machine reaches.
func listenHere(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usage("--listen: %q is no address; write it as 127.0.0.1:8080", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usage("--listen: %q is not of this machine alone; write 127.0.0.1:PORT", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &exit{exitDown, err}
	}
	return l, nil
}

// countsPath is where the sandbox says what it has counted.
const countsPath = "/__counts"

// sandboxHandler is the simulator and its counts.
func sandboxHandler(sim *youtubesim.Sim) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sim)
	mux.HandleFunc(countsPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		//nolint:errchkjson // to whom should it be told: the one who asks has gone
		_ = json.NewEncoder(w).Encode(countsOf(sim))
	})
	return mux
}

// count is a [youtubesim.Count] for those who read it.
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
	fmt.Fprintf(a.stdout, `# a simulated upstream; put this into ingestor.yaml, and any key will do:
endpoint: http://%[1]s

# or try it at once:
#   YOUTUBE_API_KEY=any INGESTOR_ENDPOINT=http://%[1]s ingestor run --once --ledger memory: --catalog ./sandbox.db
# what it has counted: http://%[1]s%[2]s; stop it with Ctrl-C
`, l.Addr(), countsPath)
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

// showCounts writes what the simulator itself has counted.
func (a *app) showCounts(sim *youtubesim.Sim) error {
	all := countsOf(sim)
	return a.print(all, func(s *sheet) {
		if len(all) == 0 {
			s.line("nobody has called")
			return
		}
		var rows [][]string
		for _, c := range all {
			rows = append(rows, []string{c.Day, c.Method, view.Number(c.Calls), view.Number(c.Units), view.Number(c.Refused)})
		}
		s.table([]column{{name: "pacific day"}, {name: "method"}, {name: "calls", right: true}, {name: "units", right: true}, {name: "refused", right: true}}, rows)
	})
}
