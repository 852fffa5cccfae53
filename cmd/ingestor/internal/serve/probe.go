package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

// probeWithin bounds the wait of a probe. The server gives up after 2 seconds.
const probeWithin = 4 * time.Second

func ProbeCommand(a *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "probe URL",
		Short: "Ask a server whether it is ready",
		Long: `Ask ingestor serve whether it is ready, for health checks of containers that hold no other
program. Exit code 69 means that it is not, or does not answer.`,
		Example: `  ingestor probe http://127.0.0.1:8080/readyz`,
		Args:    console.Takes(1, 1, "the address to ask, as http://127.0.0.1:8080/readyz"),
		RunE:    func(cmd *cobra.Command, args []string) error { return probe(cmd.Context(), args[0]) },
	}
}

func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil || req.URL.Host == "" {
		return console.Usage("%q is not an address, as http://127.0.0.1:8080/readyz", url)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("ask the server: %w", err)}
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 500)) // the status says enough
	return &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("the server is not ready: %s %s", answer.Status, console.Plain(string(said)))}
}
