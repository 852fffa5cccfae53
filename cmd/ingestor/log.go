package main

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/x/term"
	"github.com/lmittmann/tint"
)

// logger returns a logger to standard error. It writes text on a terminal and JSON
// elsewhere. With --quiet it logs problems only, for the mail of cron.
func (a *app) logger(s *settings) *slog.Logger {
	a.lines.redirect(a.stderr)
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // settings.check has refused other texts
	if a.quiet {
		level = max(level, slog.LevelWarn)
	}
	format := strings.ToLower(s.LogFormat)
	if format == "json" || format == "auto" && !isTerminal(a.stderr) {
		return slog.New(slog.NewJSONHandler(&a.lines, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(&a.lines, &tint.Options{Level: level, TimeFormat: "15:04:05", NoColor: !colourful(a.stderr)}))
}

// lines is a writer whose destination can change while it is in use. Progress bars redirect
// the log so that it stays above them.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) redirect(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = w
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// colourful reports whether to write colours to w: on a terminal, unless NO_COLOR is set
// (no-color.org).
func colourful(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
