// Command ingestor fetches from the YouTube Data API for many regions on one
// shared quota: it reserves the units of each call in a ledger, stops cleanly when
// they are gone, and resumes where it stopped.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main with an exit code. The first signal lets what is under way finish;
// the second one ends that, too.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	gently, stop := context.WithCancel(context.Background())
	abort, now := context.WithCancel(context.Background())
	defer now()
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		stop()
		<-signals
		now()
		signal.Stop(signals) // a third one ends the process
	}()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, abort: abort}
	cmd := a.root()
	cmd.SetArgs(negatives(args))
	err := cmd.ExecuteContext(gently)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(stderr, "ingestor: %s\n", err)
	}
	return exitCode(err)
}
