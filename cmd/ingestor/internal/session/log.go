package session

import (
	"log/slog"
	"strings"

	"github.com/lmittmann/tint"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
)

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
