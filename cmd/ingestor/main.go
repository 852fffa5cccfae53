// Command ingestor fetches from the YouTube Data API for many regions on one
// shared quota: it reserves the units of each call in a ledger, stops cleanly when
// they are gone, and resumes where it stopped.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback" // for systems and images without CA certificates

	_ "github.com/headroom-quota/headroom/cmd/ingestor/internal/collect" // puts the first collection of garbage off
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/ledger"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/signals"
	"github.com/headroom-quota/headroom/quota"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main, and returns the exit code. The first signal lets open calls finish.
// The second signal ends them too. The third one kills the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	gently, stop := context.WithCancel(context.Background())
	abort, now := context.WithCancel(context.Background())
	defer now()
	defer stop()
	go func() {
		<-signals.Caught()
		stop()
		<-signals.Caught()
		now()
		signals.Release()
	}()
	a := &session.Session{Stdin: stdin, Stdout: stdout, Stderr: stderr, Abort: abort}
	cmd := root(a)
	cmd.SetArgs(ledger.Negatives(args))
	called, err := cmd.ExecuteContextC(gently)
	err = console.OrStopped(gently, console.ExitDeferred, err)
	if err != nil && err.Error() != "" {
		text := err.Error()
		if errors.Is(err, quota.ErrOutage) && !strings.Contains(text, "\n") {
			text += "\nTo see what answers and what does not: ingestor check"
		}
		a.Fail(called, text)
	}
	return console.ExitCode(err)
}
