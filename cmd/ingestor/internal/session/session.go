// Package session has what one start of the program opens, once and when it is needed: the
// settings, the log, the ledger and the catalog.
package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/traces"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
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
	Tests      bool // the command asks whether files can be written: a busy one is a fault

	Clock    quota.Clock    // nil: the machine's clock
	Observer quota.Observer // of the ledger; may be nil
	Traces   *traces.Traces // nil: no traces are sent

	Counting view.Counting // what watch tells

	Loaded *settings.Settings
	Opened *open.Opened     // the ledger; nil until it is needed
	denied map[string]error // why a file cannot be written, for a command that only reads
	Log    *slog.Logger
	Lines  console.Lines // the destination of the log
}

// Settings reads the configuration once, and returns it.
func (a *Session) Settings(flags *pflag.FlagSet) (*settings.Settings, error) {
	if a.Loaded != nil {
		return a.Loaded, nil
	}
	s, err := settings.Load(a.ConfigPath, flags)
	if s != nil { // invalid ones have a log, too
		a.Log = a.logger(s)
	}
	if err != nil {
		return nil, err
	}
	a.Loaded = s
	redirectStandardLog(a.Log)
	return s, nil
}

// WithSettings returns what runs a command that needs the settings first.
func (a *Session) WithSettings(run func(cmd *cobra.Command, args []string, s *settings.Settings) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.Settings(cmd.Flags())
		if err != nil {
			return err
		}
		return run(cmd, args, s)
	}
}

// Trace starts sending traces, if the environment names a collector.
func (a *Session) Trace(ctx context.Context, done *console.Closers) {
	a.Traces = traces.Start(ctx, &traces.Options{Log: a.Log, Version: Build().Version})
	done.Add(func() error { a.Traces.Stop(a.Abort); return nil })
}

// with opens something by the settings, calls f with it, and closes it.
func with[T any](a *Session, cmd *cobra.Command, open func(context.Context, *settings.Settings, *console.Closers) (T, error), f func(context.Context, T) error) (err error) {
	s, err := a.Settings(cmd.Flags())
	if err != nil {
		return err
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	opened, err := open(cmd.Context(), s, &done)
	if err != nil {
		return err
	}
	return f(cmd.Context(), opened)
}

// WithLedger opens the ledger of the settings, and calls f.
func (a *Session) WithLedger(cmd *cobra.Command, f func(context.Context, *quota.Ledger) error) error {
	return with(a, cmd, a.OpenLedger, f)
}

// WithLedgerToRead is [Session.WithLedger] for a command that only reads: see
// [Session.ReadLedger].
func (a *Session) WithLedgerToRead(cmd *cobra.Command, f func(context.Context, *quota.Ledger) error) error {
	return with(a, cmd, func(ctx context.Context, s *settings.Settings, done *console.Closers) (*quota.Ledger, error) {
		l, instead, err := a.ReadLedger(ctx, s, done)
		instead.warn(a, err)
		return l, err
	}, f)
}

// WithCatalog opens the catalog, and calls f.
func (a *Session) WithCatalog(cmd *cobra.Command, f func(context.Context, AnyCatalog) error) error {
	return with(a, cmd, func(ctx context.Context, s *settings.Settings, done *console.Closers) (AnyCatalog, error) {
		if err := noCatalog(s); err != nil {
			return nil, err
		}
		return a.OpenCatalog(ctx, s, done)
	}, f)
}

// WithCatalogToRead is [Session.WithCatalog] for a command that only reads.
func (a *Session) WithCatalogToRead(cmd *cobra.Command, f func(context.Context, AnyCatalog) error) error {
	return with(a, cmd, func(ctx context.Context, s *settings.Settings, done *console.Closers) (AnyCatalog, error) {
		if err := noCatalog(s); err != nil {
			return nil, err
		}
		c, instead, err := a.ReadCatalog(ctx, s, done)
		instead.warn(a, err)
		return c, err
	}, f)
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

// logger returns a logger to standard error. It writes text on a terminal and JSON
// elsewhere. With --quiet it logs problems only, for the mail of cron.
func (a *Session) logger(s *settings.Settings) *slog.Logger {
	a.Lines.Redirect(a.Stderr)
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // settings.check has refused other texts
	if a.Quiet {
		level = max(level, slog.LevelWarn)
	}
	format := strings.ToLower(s.LogFormat)
	if format == "json" || format == "auto" && !console.IsTerminal(a.Stderr) {
		return slog.New(slog.NewJSONHandler(&a.Lines, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(&a.Lines, &tint.Options{Level: level, TimeFormat: "15:04:05", NoColor: !console.Colourful(a.Stderr)}))
}

// Fail writes the error that ends a command. In the log of a daemon or a server it is a line of
// JSON as all others, unless the log is text.
func (a *Session) Fail(cmd *cobra.Command, text string) {
	if a.Log == nil { // the settings could not be read
		format := cmd.Flag("log-format")
		if variable := os.Getenv("INGESTOR_LOG_FORMAT"); !format.Changed && variable != "" {
			_ = format.Value.Set(variable) // any text will do
		}
		a.Log = a.logger(&settings.Settings{LogFormat: format.Value.String()})
	}
	once, _ := cmd.Flags().GetBool("once") // only run has the flag
	serves := !once && slices.Contains([]string{"ingestor run", "ingestor serve", "ingestor proxy"}, cmd.CommandPath())
	if _, json := a.Log.Handler().(*slog.JSONHandler); json && serves && !console.IsTerminal(a.Stderr) {
		a.Log.Error(text)
		return
	}
	fmt.Fprintf(a.Stderr, "ingestor: %s\n", text)
}

// The rules for standard output:
//
//   - A terminal gets a table that fits, with a little colour unless NO_COLOR is set. If the
//     rows do not fit, each cell gets a line.
//   - A pipe gets the same table without colour, and uncut.
//   - A program uses --output json, whose names do not change.
//   - Text from outside (titles, reasons) cannot move the cursor.
//
// The table of lipgloss makes every column narrower, and so cuts figures. This table
// shortens only names.

// Command is [console.Command] with the flag --output.
func (a *Session) Command(use string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error, complete ...cobra.CompletionFunc) *cobra.Command {
	cmd := console.Command(use, args, run, complete...)
	cmd.Flags().StringVarP(&a.Output, "output", "o", "table", "output `format`: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.Output != "table" && a.Output != "json" {
			return console.Usage("there is no output format %q; write table or json", a.Output)
		}
		return nil
	}
	return cmd
}

// Print writes v as JSON if --output asks for it, or else what show writes.
func (a *Session) Print(v any, show func(*console.Sheet)) error {
	if a.Output == "json" {
		e := json.NewEncoder(a.Stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	s := console.NewSheet(a.Stdout)
	show(s)
	_, err := io.WriteString(a.Stdout, s.Text.String())
	return err
}

// versionView describes a build, in JSON.
type versionView struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commit_time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// released is the version of a release; make release sets it. It is empty in other builds.
var released string

// Build returns what the Go toolchain wrote into the program.
func Build() versionView {
	v := versionView{Version: "(unknown)", Go: runtime.Version(), Platform: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH)}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(released, info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// Verdict returns what the first page of a server would say, for a command that only reads.
func (a *Session) Verdict(ctx context.Context, s *settings.Settings, l *quota.Ledger, c AnyCatalog) (*verdict.Said, error) {
	src := view.Sources{Ledger: l, Catalog: c, Jobs: s.List(), Runner: ingest.NewRunner(&s.Config, l, c, nil, nil, &ingest.Options{Clock: a.Clock})}
	if s.Database != "" {
		board, err := OpenBoard(ctx, c)
		if err != nil {
			return nil, err
		}
		src.Fleet = board
	}
	is := s.Facts(a.Clock).Read(ctx, &src)
	is.Believe(a.denied["ledger"], a.denied["catalog"])
	return is.Verdict().Said(), nil
}

// VerdictToRead is [Session.Verdict] for a command that has opened no catalog. It is nil without
// jobs, and before the first run.
func (a *Session) VerdictToRead(ctx context.Context, s *settings.Settings, l *quota.Ledger) (v *verdict.Said, err error) {
	if len(s.List()) == 0 || s.NoCatalog() != nil {
		return nil, nil
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	c, instead, err := a.ReadCatalog(ctx, s, &done)
	if instead.warn(a, err); err != nil {
		return nil, err
	}
	return a.Verdict(ctx, s, l, c)
}

// Complete completes a flag with names from the settings.
func (a *Session) Complete(names func(*settings.Settings) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		s, err := a.Settings(cmd.Flags())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(s), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFirst completes the first argument with names from the settings.
func (a *Session) CompleteFirst(names func(*settings.Settings) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.Complete(names)(cmd, args, text)
	}
}

// JobNames returns the names of the enabled jobs.
func JobNames(s *settings.Settings) []string {
	return namesOf(s, func(ingest.Kind) bool { return true })
}

// SearchNames returns the names of the jobs that a backfill can take.
func SearchNames(s *settings.Settings) []string { return namesOf(s, ingest.Kind.Dated) }

func namesOf(s *settings.Settings, has func(ingest.Kind) bool) (names []string) {
	for _, j := range s.List() {
		if has(j.Kind) {
			names = append(names, j.Name)
		}
	}
	return names
}

// RegionNames returns the regions of the settings and of all jobs.
func RegionNames(s *settings.Settings) []string {
	regions := slices.Clone(s.Regions)
	for _, j := range s.List() {
		regions = append(regions, j.Regions...)
	}
	slices.Sort(regions)
	return slices.Compact(regions)
}

// ClassNames returns the classes of the upstream of the jobs.
func ClassNames(s *settings.Settings) []string {
	if u := s.Book.Upstreams[settings.Metered]; u != nil {
		return slices.Sorted(maps.Keys(u.Classes))
	}
	return nil
}

// MethodNames returns the methods of all upstreams.
func MethodNames(s *settings.Settings) (names []string) {
	for _, u := range s.Book.Upstreams {
		names = slices.AppendSeq(names, maps.Keys(u.Methods))
	}
	slices.Sort(names)
	return names
}

// FindMethod finds a method by its name.
func FindMethod(b *quota.Book, name string) (*book.Upstream, *book.Method, error) {
	var like, all []string
	for _, upstream := range slices.Sorted(maps.Keys(b.Upstreams)) {
		u := b.Upstreams[upstream]
		if m := u.Methods[name]; m != nil {
			return u, m, nil
		}
		for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
			all = append(all, m)
			if strings.Contains(strings.ToLower(m), strings.ToLower(strings.TrimSuffix(name, ".list"))) {
				like = append(like, m)
			}
		}
	}
	const few, suggestions = 12, 3
	switch {
	case len(like) > 0:
		slices.SortStableFunc(like, func(a, b string) int { return strictyaml.Distance(name, a) - strictyaml.Distance(name, b) })
		like = like[:min(suggestions, len(like))]
		return nil, nil, console.Usage("the price book has no method %q; did you mean %s?", name, strings.Join(like, ", "))
	case len(all) > 0 && len(all) <= few:
		return nil, nil, console.Usage("the price book has no method and no upstream %q; its methods are %s", name, strings.Join(all, ", "))
	}
	return nil, nil, console.Usage("the price book has no method and no upstream %q\nTo list all methods: ingestor costs show", name)
}

// Answers says what the answers of an upstream tell about pools: of all, or of those
// that a method charges.
func Answers(u *book.Upstream, m *book.Method) []string {
	all := []string{}
	for i := range u.Feedback {
		f := &u.Feedback[i]
		if m != nil && f.Pool.From == nil {
			if _, charged := m.Charges[f.Pool.Name]; !charged {
				continue
			}
		}
		all = append(all, f.String())
	}
	return all
}
