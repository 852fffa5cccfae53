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

// logger writes to standard error: lines for people on a terminal, JSON elsewhere.
// Quiet is for the mail of cron: problems only.
func (a *app) logger(s *settings) *slog.Logger {
	a.lines.to(a.stderr)
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // check has refused others
	if a.quiet {
		level = max(level, slog.LevelWarn)
	}
	format := strings.ToLower(s.LogFormat)
	if format == "json" || format == "auto" && !isTerminal(a.stderr) {
		return slog.New(slog.NewJSONHandler(&a.lines, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(&a.lines, &tint.Options{Level: level, TimeFormat: "15:04:05", NoColor: !colourful(a.stderr)}))
}

// lines is a writer that can be pointed elsewhere while it is in use: above the bars
// while there are some.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) to(w io.Writer) {
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

// isTerminal reports whether somebody sees what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// colourful reports whether to write colours: on a terminal that has not asked for
// none (no-color.org).
func colourful(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
