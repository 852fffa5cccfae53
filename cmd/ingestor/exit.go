package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/googlecount"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Exit codes, as in sysexits.h.
const (
	exitDone       = 0
	exitFailed     = 1  // some units of work
	exitUsage      = 64 // flags and arguments
	exitDown       = 69 // the upstream, or the ledger
	exitDeferred   = 75 // by quota, or because another process has the job
	exitCredential = 77
	exitConfig     = 78
)

// exit is an error with an exit code. An error without a text is not printed: everything
// was reported before.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

func config(err error) error {
	if err == nil {
		return nil
	}
	return &exit{exitConfig, err}
}

// cannotListen returns the error for an address on which a command cannot listen. The
// address is the setting's fault, unless only the machine refuses it.
func cannotListen(err error, remedy string) error {
	code := exitDown
	var address *net.AddrError
	if errors.As(err, &address) {
		code = exitConfig
	}
	return &exit{code, fmt.Errorf("%w\nTo listen on a free port: %s", err, remedy)}
}

// countCodes are the exit codes when Google's own count cannot be read.
var countCodes = map[googlecount.Kind]int{
	googlecount.Misconfigured: exitConfig, googlecount.Credential: exitCredential, googlecount.Rights: exitCredential, googlecount.Down: exitDown,
}

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	var named *exit
	var uncounted *googlecount.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &named):
		return named.code
	case errors.As(err, &uncounted):
		return countCodes[uncounted.Kind]
	case errors.Is(err, meter.ErrCredential):
		return exitCredential
	case errors.Is(err, quota.ErrOutage), errors.Is(err, ingest.ErrUpstreamDown), errors.Is(err, fleet.ErrDatabase):
		return exitDown
	case errors.Is(err, quota.ErrRefused), errors.Is(err, ingest.ErrHeld), errors.Is(err, ingest.ErrInterrupted), errors.Is(err, ingest.ErrLostLock), errors.Is(err, fleet.ErrPaused):
		return exitDeferred
	case errors.Is(err, quota.ErrBadInput), errors.Is(err, quota.ErrUnpriced), errors.Is(err, quota.ErrImpossible), errors.Is(err, quota.ErrStaleBook):
		return exitConfig
	}
	return exitFailed
}

// order sorts exit codes. The first one that occurs is the exit code of the program.
var order = []int{exitConfig, exitCredential, exitDown, exitFailed, exitDeferred, exitDone}

// reportCode returns the exit code of a run.
func reportCode(r *ingest.Report) int {
	codes := map[int]bool{exitDone: true}
	codes[endCode(r.State, r.Err)] = true
	for _, w := range r.Work {
		codes[endCode(w.State, w.Err)] = true
	}
	return worst(codes)
}

// endCode returns the exit code of a run, or of a unit of work, that ended in a state.
// max_runtime, max_units and pages defer work without an error.
func endCode(state catalog.State, err error) int {
	switch code := exitCode(err); {
	case state == catalog.Deferred && (code == exitFailed || code == exitDone):
		return exitDeferred
	default:
		return code
	}
}

// orStopped returns err. If err only says that the process was told to stop, orStopped returns
// the exit code instead, with nothing to print.
func orStopped(ctx context.Context, code int, err error) error {
	switch {
	case ctx.Err() == nil, !errors.Is(err, context.Canceled) && !errors.Is(err, ingest.ErrInterrupted) && !sqlitefile.Interrupted(err):
		return err
	case code == exitDone:
		return nil
	}
	return &exit{code: code}
}

// worst returns the first of the codes by their order.
func worst(codes map[int]bool) int {
	for _, c := range order {
		if codes[c] {
			return c
		}
	}
	return exitDone
}
