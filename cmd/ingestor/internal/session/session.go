package session

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/traces"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// Session is the state that the commands share.
type Session struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Abort          context.Context // its end also ends open calls

	ConfigPath string
	Output     string
	Quiet      bool

	Clock    quota.Clock    // nil: the machine's clock
	Observer quota.Observer // of the ledger; may be nil
	Traces   *traces.Traces // nil: no traces are sent

	Counting view.Counting // what watch tells

	Loaded *settings.Settings
	Opened *open.Opened // the ledger; nil until it is needed
	Log    *slog.Logger
	Lines  console.Lines // the destination of the log
}

// Settings reads the configuration once, and returns it.
func (a *Session) Settings(flags *pflag.FlagSet) (*settings.Settings, error) {
	if a.Loaded != nil {
		return a.Loaded, nil
	}
	s, err := settings.Load(a.ConfigPath, flags)
	if err != nil {
		return nil, err
	}
	a.Loaded, a.Log = s, a.logger(s)
	redirectStandardLog(a.Log)
	return s, nil
}

// Trace starts sending traces, if the environment names a collector.
func (a *Session) Trace(ctx context.Context, done *console.Closers) {
	a.Traces = traces.Start(ctx, &traces.Options{Log: a.Log, Version: Build().Version})
	done.Add(func() error { a.Traces.Stop(a.Abort); return nil })
}

// WithLedger opens the ledger of the settings, and calls f.
func (a *Session) WithLedger(cmd *cobra.Command, f func(context.Context, *quota.Ledger) error) (err error) {
	s, err := a.Settings(cmd.Flags())
	if err != nil {
		return err
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	l, err := a.OpenLedger(cmd.Context(), s, &done)
	if err != nil {
		return err
	}
	return f(cmd.Context(), l)
}

// WithMeter opens the ledger for a command that meters calls, and traces them. Ready comes
// first, to check the flags by the settings. A command that is told to stop leaves with the
// code stopped.
func (a *Session) WithMeter(cmd *cobra.Command, stopped int, ready func(*settings.Settings) error, f func(context.Context, *settings.Settings, *quota.Ledger, *console.Closers) error) (err error) {
	ctx := cmd.Context()
	s, err := a.Settings(cmd.Flags())
	if err == nil {
		err = ready(s)
	}
	if err != nil {
		return err
	}
	var done console.Closers
	defer func() { err = console.OrStopped(ctx, stopped, errors.Join(err, done.Close())) }()
	a.Trace(ctx, &done)
	l, err := a.OpenLedger(ctx, s, &done)
	if err != nil {
		return err
	}
	return f(ctx, s, l, &done)
}

// Now returns the time of the session.
func (a *Session) Now() time.Time {
	if a.Clock != nil {
		return a.Clock.Now()
	}
	return time.Now()
}

// WithCatalog opens the catalog, and calls f.
func (a *Session) WithCatalog(cmd *cobra.Command, f func(context.Context, AnyCatalog) error) (err error) {
	s, err := a.Settings(cmd.Flags())
	if err != nil {
		return err
	}
	if err := s.NoCatalog(); err != nil {
		return err
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	c, err := a.OpenCatalog(cmd.Context(), s, &done)
	if err != nil {
		return err
	}
	return f(cmd.Context(), c)
}
