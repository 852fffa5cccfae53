// Package console has what every command of the program writes and returns: tables and
// sentences for people, exit codes, and checks of arguments.
package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/googlecount"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Exit codes, as in sysexits.h.
const (
	ExitDone       = 0
	ExitFailed     = 1  // some units of work
	ExitUsage      = 64 // flags and arguments
	ExitDown       = 69 // the upstream, or the ledger
	ExitDeferred   = 75 // by quota, because another process has the job, or because of a signal
	ExitCredential = 77
	ExitConfig     = 78
)

// Exit is an error with an exit code. An error without a text is not printed: everything
// was reported before.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Usage returns an error of flags or arguments.
func Usage(format string, args ...any) error {
	return &Exit{ExitUsage, fmt.Errorf(format, args...)}
}

// Config marks an error as one of the configuration. Of nil it returns nil.
func Config(err error) error {
	if err == nil {
		return nil
	}
	return &Exit{ExitConfig, err}
}

// CannotListen returns the error for an address on which a command cannot listen. The
// address is the setting's fault, unless only the machine refuses it.
func CannotListen(err error, remedy string) error {
	code := ExitDown
	if errors.As(err, new(*net.AddrError)) {
		code = ExitConfig
	}
	return &Exit{code, fmt.Errorf("%w\nTo listen on a free port: %s", err, remedy)}
}

// countCodes are the exit codes when Google's own count cannot be read.
var countCodes = map[googlecount.Kind]int{
	googlecount.Misconfigured: ExitConfig, googlecount.Credential: ExitCredential, googlecount.Rights: ExitCredential, googlecount.Down: ExitDown,
}

// ExitCode returns the exit code of an error.
func ExitCode(err error) int {
	var named *Exit
	var uncounted *googlecount.Error
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &named):
		return named.Code
	case errors.As(err, &uncounted):
		return countCodes[uncounted.Kind]
	case errors.Is(err, meter.ErrCredential):
		return ExitCredential
	case errors.Is(err, quota.ErrOutage), errors.Is(err, ingest.ErrUpstreamDown), errors.Is(err, fleet.ErrDatabase):
		return ExitDown
	case errors.Is(err, quota.ErrRefused), errors.Is(err, ingest.ErrHeld), errors.Is(err, ingest.ErrInterrupted), errors.Is(err, ingest.ErrLostLock), errors.Is(err, fleet.ErrPaused):
		return ExitDeferred
	case errors.Is(err, quota.ErrBadInput), errors.Is(err, quota.ErrUnpriced), errors.Is(err, quota.ErrImpossible), errors.Is(err, quota.ErrStaleBook):
		return ExitConfig
	}
	return ExitFailed
}

// order sorts exit codes. The first one that occurs is the exit code of the program.
var order = []int{ExitConfig, ExitCredential, ExitDown, ExitFailed, ExitDeferred, ExitDone}

// ReportCode returns the exit code of a run.
func ReportCode(r *ingest.Report) int {
	codes := map[int]bool{ExitDone: true}
	codes[endCode(r.State, r.Err)] = true
	for _, w := range r.Work {
		codes[endCode(w.State, w.Err)] = true
	}
	return Worst(codes)
}

// endCode returns the exit code of a run, or of a unit of work, that ended in a state.
// max_runtime, max_units and pages defer work without an error.
func endCode(state catalog.State, err error) int {
	switch code := ExitCode(err); {
	case state == catalog.Deferred && (code == ExitFailed || code == ExitDone):
		return ExitDeferred
	default:
		return code
	}
}

// OrStopped returns err. If err only says that the process was told to stop, OrStopped returns
// the exit code instead, with nothing to print.
func OrStopped(ctx context.Context, code int, err error) error {
	switch {
	case ctx.Err() == nil, !errors.Is(err, context.Canceled) && !errors.Is(err, ingest.ErrInterrupted) && !sqlitefile.Interrupted(err):
		return err
	case code == ExitDone:
		return nil
	}
	return &Exit{Code: code}
}

// Worst returns the first of the codes by their order.
func Worst(codes map[int]bool) int {
	for _, c := range order {
		if codes[c] {
			return c
		}
	}
	return ExitDone
}

// BadUsage marks bad input from the command line as an error of usage.
func BadUsage(err error) error {
	if ExitCode(err) == ExitConfig && !errors.Is(err, quota.ErrStaleBook) {
		return &Exit{ExitUsage, err}
	}
	return err
}

// Command returns a command, which shows its help if run is nil. The first of complete completes its
// arguments. The manual of the program has its help.
func Command(use string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error, complete ...cobra.CompletionFunc) *cobra.Command {
	cmd := &cobra.Command{Use: use, Args: args, RunE: run}
	if run == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if len(complete) > 0 {
		cmd.ValidArgsFunction = complete[0]
	}
	return cmd
}

// Known returns an error for an unknown command.
func Known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return Usage("there is no command %q; did you mean %s?", args[0], strings.Join(like[:min(3, len(like))], " or "))
	}
	return Usage("there is no command %q\nTo list the commands: %s --help", args[0], cmd.CommandPath())
}

// NoArgs returns an error if there are arguments. It is cobra.NoArgs with our exit code.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("%s takes no arguments, but got %q\nFor help: %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// Takes returns an error if there are fewer or more arguments than it names.
func Takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usage("%s takes %s\nFor help: %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// Closers closes what was opened, in reverse order.
type Closers []func() error

// Add adds one to be closed before all others.
func (c *Closers) Add(f func() error) { *c = append(*c, f) }

// Go runs f beside the caller, until f is to be closed. Its context ends then, and all others stay open
// until f has returned.
func (c *Closers) Go(ctx context.Context, f func(context.Context)) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	c.Add(func() error { stop(); <-ended; return nil })
}

// Close closes all, and joins their errors.
func (c *Closers) Close() error {
	var all error
	for i := len(*c) - 1; i >= 0; i-- {
		all = errors.Join(all, (*c)[i]())
	}
	if all != nil {
		return fmt.Errorf("close: %w", all)
	}
	return nil
}
